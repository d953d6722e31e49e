"""pass@k and pass^k against all subsets, and the relations between them."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.pass_at_k import depths, pass_at, pass_every

CASES = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(CASES)
def test_pass_at_k_is_the_mean_over_all_subsets(case: tuple[int, int, int]) -> None:
    n, c, k = case
    subsets = list(combinations([place < c for place in range(n)], k))
    assert pass_at(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_every(n, c, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_depths_are_powers_of_two_and_the_total() -> None:
    assert [depths(n) for n in (1, 2, 3, 4, 8, 12)] == [[], [2], [2, 3], [2, 4], [2, 4, 8], [2, 4, 8, 12]]

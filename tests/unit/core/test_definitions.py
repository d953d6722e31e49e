"""pass@k, seeds and similarity, by their definitions."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.similarity import Index, shingles, similarity
from coevolve.core.statistics import depths, pass_at, pass_every

CASES = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(CASES)
def test_pass_at_k_is_the_mean_over_all_subsets(case: tuple[int, int, int]) -> None:
    n, c, k = case
    subsets = list(combinations([place < c for place in range(n)], k))
    assert pass_at(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_every(n, c, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_depths_are_powers_of_two_and_the_total() -> None:
    assert [depths(n) for n in (1, 2, 3, 4, 8, 12)] == [[], [2], [2, 3], [2, 4], [2, 4, 8], [2, 4, 8, 12]]


def test_seed_depends_on_every_part_and_not_on_the_process() -> None:
    seeds = {derive_seed(0, "train", 0, 1), derive_seed(0, "train", 1, 0), derive_seed(1, "train", 0, 1)}
    assert len(seeds) == 3
    assert derive_seed("1") != derive_seed(1)
    assert derive_seed(0, "train", 0, 1) == 8562035858589965541
    assert all(0 <= derive_seed(i) < 2**63 for i in range(100))


def test_generators_with_the_same_purpose_agree() -> None:
    assert rng_for(0, "explore").random() == rng_for(0, "explore").random()


TEXT = st.lists(
    st.sampled_from(["archive", "the", "mail", "about", "rent", "budget", "and", "pay", "Ana"]), max_size=8
).map(" ".join)


@given(st.lists(TEXT, max_size=12), TEXT, st.sampled_from([0.3, 0.5, 0.8, 0.9, 1.0]))
def test_index_finds_the_nearest_text(texts: list[str], wanted: str, threshold: float) -> None:
    index = Index(threshold)
    for number, text in enumerate(texts):
        index.add(str(number), text)
    all_ = [similarity(shingles(wanted), shingles(text)) for text in texts]
    best = max(all_, default=-1.0)
    found = index.nearest(wanted)
    if best < threshold:
        assert found is None
    else:
        assert found == (str(all_.index(best)), best), "of equal ones the first"


def test_similarity_ignores_case_and_punctuation_but_not_order() -> None:
    assert similarity(shingles("Archive the mail."), shingles("archive the mail")) == 1.0
    assert similarity(shingles("pay Ana and Ben"), shingles("pay Ben and Ana")) < 1.0

"""Mixtures of several environments: their text form and the order of turns."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.mixtures import apportioned, in_turn, mixture, shares, turns

NAMES = st.sampled_from(["miniworld", "sql", "bfcl", "textworld", "agentdojo"])
PARTS = st.dictionaries(NAMES, st.integers(1, 50), min_size=2)


@given(PARTS)
def test_mixture_is_read_back_as_written(weights: dict[str, int]) -> None:
    total = sum(weights.values())
    given_shares = {name: weight / total for name, weight in weights.items()}
    assert shares(mixture(given_shares)) == given_shares


def test_single_name_has_the_whole_share_and_plain_names_equal_shares() -> None:
    assert shares("miniworld") == {"miniworld": 1.0}
    assert shares("sql + miniworld") == {"sql": 0.5, "miniworld": 0.5}


@pytest.mark.parametrize(
    "parts", ["0.5*sql+0.4", "1.5*sql+-0.5", "nan*sql+0.5", "0.5*miniworld+0.5", "much*sql+0.5", "sql+0.5"]
)
def test_invalid_mixture_is_refused_with_what_is_expected(parts: str) -> None:
    for text in (f"{parts}*miniworld", "sql+"):
        with pytest.raises(CoevolveError, match="expected different names joined by"):
            shares(text)


@given(PARTS, st.integers(0, 60))
def test_every_prefix_of_turns_respects_the_shares(weights: dict[str, int], count: int) -> None:
    total = sum(weights.values())
    taken = Counter(turns({name: weight / total for name, weight in weights.items()}, count))
    assert sum(taken.values()) == count
    assert all(taken[name] < count * weight / total + 1 for name, weight in weights.items())
    assert turns(weights, count) == turns(weights, count + 7)[:count]
    assert sum(apportioned(weights, count).values()) == count


@given(st.dictionaries(NAMES, st.lists(st.integers(), max_size=9), min_size=1))
def test_in_turn_takes_every_item_in_order(own: dict[str, list[int]]) -> None:
    marked = {name: [(name, number) for number in range(len(values))] for name, values in own.items()}
    found = in_turn(marked, dict.fromkeys(own, 1.0))
    assert sorted(found) == sorted(one for many in marked.values() for one in many)
    assert all([one for one in found if one[0] == name] == many for name, many in marked.items())

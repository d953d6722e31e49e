"""Hashes of states compare numbers by value, and hashes of content compare bytes."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.hashing import content_hash, state_hash

NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    NUMBERS | st.booleans() | st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def respelled(value: Any) -> Any:
    """An equal value whose numbers are written in another way."""
    if isinstance(value, list):
        return tuple(map(respelled, value))
    if isinstance(value, dict):
        return {key: respelled(value[key]) for key in reversed(value)}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value) or -0.0
    return value


@given(JSON)
def test_equal_states_have_equal_hashes_and_are_not_changed(value: Any) -> None:
    before = copy.deepcopy(value)
    assert state_hash(value) == state_hash(respelled(value)) == state_hash(json.loads(json.dumps(value)))
    assert value == before


@given(NUMBERS, NUMBERS)
def test_different_numbers_have_different_hashes(one: float, other: float) -> None:
    assert (state_hash(one) == state_hash(other)) == (one == other)


def test_a_state_of_whole_numbers_and_texts_keeps_its_hash() -> None:
    state = {"b": [1, True, None, "x"], "a": {"c": 2.5}}
    assert state_hash(state) == content_hash(state) != state_hash({**state, "b": [1, 1, None, "x"]})
    assert content_hash(5) != content_hash(5.0)

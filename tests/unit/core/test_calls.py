"""What a call may be: JSON that every file and pipe can hold, nested and long within limits."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.calls import CHARACTERS, DEPTH, misfit, writable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def nested(depth: int) -> Any:
    """Lists in each other."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(st.text(), st.dictionaries(st.text(), JSON, max_size=4))
def test_what_json_can_say_is_a_call(name: str, arguments: dict[str, Any]) -> None:
    assert misfit(name, arguments) == ""
    assert json.loads(json.dumps(arguments)) == arguments


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x": nested(DEPTH)}, "nested deeper"),
        ({"x": nested(100_000)}, "nested deeper"),
        ({"x": [{"y": float("nan")}]}, "finite"),
        ({"x": float("inf")}, "finite"),
        ({"x": 10 ** (sys.get_int_max_str_digits() + 1)}, "digits"),
        ({"x": "\ud800"}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ({"x": b"bytes"}, "JSON"),
        ({"x": "x" * CHARACTERS}, "longer"),
    ],
    ids=["deep", "very deep", "nan", "infinity", "digits", "surrogate", "surrogate key", "bytes", "long"],
)
def test_what_is_no_call_is_told_why(arguments: dict[str, Any], reason: str) -> None:
    assert reason in misfit("tool", arguments)


def test_the_limits_themselves_are_within() -> None:
    assert misfit("tool", {"x": nested(DEPTH - 1)}) == ""
    assert misfit("tool", {"x": "x" * (CHARACTERS - len(json.dumps(["tool", {"x": ""}])))}) == ""
    assert "surrogate" in misfit("\ud800", {})
    assert "longer" in misfit("x" * CHARACTERS, {})


@given(st.text(st.characters(exclude_categories=[])))
def test_what_is_writable_can_be_written(text: str) -> None:
    found = writable(text)
    assert found.encode().decode() == found
    assert found == text or any(0xD800 <= ord(one) <= 0xDFFF for one in text)

"""A call is valid JSON that every file and pipe can hold, within limits of depth and length."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.task import CHARACTERS, misfit
from coevolve.core.untrusted import DEPTH, writable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def nested(depth: int) -> Any:
    """Lists nested ``depth`` deep."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(st.text(), st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_arguments_form_a_valid_call(name: str, arguments: dict[str, Any]) -> None:
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
def test_invalid_call_is_refused_with_a_reason(arguments: dict[str, Any], reason: str) -> None:
    assert reason in misfit("tool", arguments)


def test_calls_at_the_limits_are_valid() -> None:
    assert misfit("tool", {"x": nested(DEPTH - 1)}) == ""
    assert misfit("tool", {"x": "x" * (CHARACTERS - len(json.dumps(["tool", {"x": ""}])))}) == ""
    assert "surrogate" in misfit("\ud800", {})
    assert "longer" in misfit("x" * CHARACTERS, {})


@given(st.text(st.characters(exclude_categories=[])))
def test_writable_text_can_be_encoded(text: str) -> None:
    found = writable(text)
    assert found.encode().decode() == found
    assert found == text or any(0xD800 <= ord(one) <= 0xDFFF for one in text)

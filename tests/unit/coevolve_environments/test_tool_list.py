"""Tools and answers as servers send them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve_environments.tool_list import SHOWN, answer, cut, function, unknown

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("parts", "structured", "heard"),
    [
        ([], None, ""),
        ([], {"result": []}, '{"result": []}'),
        ([text("")], {"result": ""}, ""),
        ([text("a"), text("b")], {"result": ["a", "b"]}, "a\nb"),
        ([text("5")], {"result": "5"}, "5"),
        ([text("5")], {"result": 5}, "5"),
        ([text("5")], {"result": 6}, '5\n{"result": 6}'),
        ([text('{"b": 1,\n "a": "ü"}')], {"a": "ü", "b": 1}, '{"b": 1,\n "a": "ü"}'),
        ([text("two rows")], {"rows": [1, 2]}, 'two rows\n{"rows": [1, 2]}'),
        ([text("{" * 100_000)], None, "{" * 100_000),
        ([3, "x", {"type": "new", "at": {"_meta": 1, "x": None}}], None, '3\n"x"\n{"type": "new", "at": {}}'),
        ([{"type": "resource", "resource": {"uri": "a:b", "text": "in it"}}], None, "in it"),
    ],
)
def test_an_answer_has_all_its_contents_once(parts: list[Any], structured: Any, heard: str) -> None:
    assert answer(parts, structured) == heard


@given(VALUES, VALUES)
def test_different_structured_contents_are_different_answers(one: Any, other: Any) -> None:
    same = json.dumps(one) == json.dumps(other)
    for wrap in (lambda value: {"result": value}, lambda value: {"rows": value, "note": "x"}):
        assert (answer([], wrap(one)) == answer([], wrap(other))) == same
        shown = [text(json.dumps(wrap(one)))]
        assert answer(shown, wrap(one)) == shown[0]["text"]


@given(st.sampled_from(["data", "blob"]), st.text(), st.text())
def test_different_bytes_are_different_answers(key: str, one: str, other: str) -> None:
    def heard(content: str) -> str:
        return answer([{"type": "image", "mimeType": "image/png", key: content}], None)

    assert (heard(one) == heard(other)) == (one == other)


@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        ({"type": "object"}, []),
        ({"type": "object", "additionalProperties": False}, ["n"]),
        ({"type": "object", "properties": {}}, ["n"]),
        ({"type": "object", "properties": {"n": {}}}, []),
        ({"type": "object", "properties": {"m": {}}}, ["n"]),
        ({"type": "object", "properties": {"m": {}}, "additionalProperties": {}}, []),
    ],
)
def test_only_a_schema_that_lists_its_properties_refuses_others(schema: dict[str, Any], refused: list[str]) -> None:
    parameters = function("look", "", schema)["function"]["parameters"]
    assert unknown({"n": 1}, parameters) == refused and isinstance(parameters["properties"], dict)


def test_a_long_answer_says_that_it_is_cut() -> None:
    assert cut("x" * SHOWN) == "x" * SHOWN
    assert cut("x" * (SHOWN + 1)).endswith(f"x [cut after {SHOWN} of {SHOWN + 1} characters]")

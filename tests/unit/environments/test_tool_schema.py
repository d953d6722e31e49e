"""Patterns in the schemas of servers."""

from typing import Any

import pytest

from coevolve.environments.tool_schema import tool_schema

LONG = f"{'a' * 400}!"  # takes Python's `re` more than years with some of the patterns


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        (r"^(a+)+$", ["aaa"]),
        (r"^(\w+\s?)*$", ["aaa"]),
        (r"^(a|a)*$", ["aaa"]),
        (r"\d{4}", ["2026-01"]),
        (r"^(?=a)a", ["aaa", "2026-01", LONG]),  # not for an engine of linear time: the pattern counts as absent
        (r"(a)\1", ["aaa", "2026-01", LONG]),
        ("[", ["aaa", "2026-01", LONG]),
    ],
)
def test_foreign_patterns_take_linear_time(pattern: str, fitting: list[str]) -> None:
    names = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False}
    schema = tool_schema({"parameters": {"properties": {"day": {"type": "string", "pattern": pattern}, "by": names}}})
    parts: dict[str, Any] = schema.flat()["properties"]
    assert schema.fitting(["aaa", "2026-01", LONG], parts["day"]) == fitting
    assert schema.fitting([7, None], {"pattern": pattern}) == [7, None]
    known = LONG not in fitting
    assert known or any(repr(pattern) in remark for remark in schema.remarks)
    if known:
        records: list[dict[str, object]] = [{name: 1} for name in ("aaa", "2026-01", LONG)]
        assert schema.fitting([*records, {"aaa": "one"}], parts["by"]) == [{name: 1} for name in fitting]
        assert schema.fitting(["no record", *records], {**names, "properties": {LONG: {}}})[-1] == {LONG: 1}

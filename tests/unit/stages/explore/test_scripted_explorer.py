"""The arguments that the scripted explorer draws from a tool's schema, as servers of today write them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import AnyUrl, BaseModel, ConfigDict, Field

from coevolve.core.task import Task, ToolCall
from coevolve.environments.chains import observed
from coevolve.environments.knowledge import learn
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.requests import Request
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from tests.unit.environments.open_tools import OpenTools

ONE = Request("", 0, None, Task.create("", "", [], {}, []), {}, None, [], [], {}, 0)
TICKETS = [ToolCall("open", {"ticket": number, "title": f"Ticket {number}"}) for number in (3, 7)]
OPEN = {"type": "object", "properties": {"ticket": {"type": "integer"}, "title": {"type": "string"}}}


def drawn(schema: Any, count: int = 60, known: Sequence[ToolCall] = TICKETS) -> list[dict[str, Any]]:
    """The arguments of the explorer's calls of a tool with this schema, in ``count`` explorations that ask for it."""
    environment = OpenTools({"open": OPEN, "tool": schema}, known)
    tasks = environment.tasks("seed")
    explorer = ScriptedExplorer(environment, learn(environment, tasks), Explore())
    found = explorer.explore([replace(ONE, task=tasks[0], seed=seed, goals=["tool"]) for seed in range(count)])
    return [call.arguments for exploration in found for call in exploration.calls if call.name == "tool"]


class State(Enum):
    OPEN, CLOSED = "open", "closed"


class Where(BaseModel):
    city: Literal["Rome", "Oslo"]
    floor: Annotated[int, Field(ge=-2, le=3)] = 0


class Ticket(BaseModel):
    ticket: int
    where: Where | None = None


class Node(BaseModel):
    state: State
    children: list["Node"] = []


class Email(BaseModel):
    kind: Literal["email"]
    to: Annotated[str, Field(json_schema_extra={"format": "email"})]


class Page(BaseModel):
    kind: Literal["page"]
    url: AnyUrl


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    level: Literal["low", "high"]


FIELDS: dict[str, Any] = {
    "a plain text that is known": (str, "title"),
    "an enumeration": (State, "state"),
    "an optional enumeration": (State | None, "state"),
    "a literal of mixed types": (Literal["a", 1, True, None], "mixed"),
    "a bounded whole number": (Annotated[int, Field(ge=100, le=105)], "stars"),
    "a bound below zero": (Annotated[int, Field(lt=-3)], "depth"),
    "a share": (Annotated[float, Field(gt=0, lt=1)], "share"),
    "a multiple": (Annotated[int, Field(multiple_of=250, gt=0)], "grams"),
    "a date": (date, "day"),
    "a URL": (AnyUrl, "url"),
    "a record": (Ticket, "request"),
    "a record within itself": (Node, "root"),
    "a list of records": (Annotated[list[Ticket], Field(min_length=1, max_length=3)], "requests"),
    "a set of choices": (Annotated[set[Literal["a", "b", "c"]], Field(min_length=2)], "flags"),
    "a pair": (tuple[Literal["x", "y"], bool], "pair"),
    "a mapping": (dict[str, int], "counts"),
    "a union of types": (int | Literal["all"], "limit"),
    "a union of records": (Annotated[Email | Page, Field(discriminator="kind")], "via"),
    "a closed record": (Strict, "strict"),
}


def model(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool with these arguments, as FastMCP has it from Pydantic."""
    made = type("Arguments", (BaseModel,), {"__annotations__": {key: kind for kind, key in fields.values()}})
    return made.model_json_schema()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("name", FIELDS)
def test_argument_as_pydantic_writes_it_is_drawn_and_fits(name: str) -> None:
    schema = model({name: FIELDS[name]})
    found = drawn(schema)
    assert len(found) > 20
    validator = Draft202012Validator(schema, format_checker=FormatChecker())
    assert [list(validator.iter_errors(one)) for one in found if not validator.is_valid(one)] == []


STRICT = {"type": "object", "additionalProperties": False, "required": ["when", "state"]}
DIALECTS: dict[str, tuple[Any, Any]] = {
    "strict, as OpenAI asks": (
        {**STRICT, "properties": {"when": {"type": ["string", "null"]}, "state": {"enum": ["a", "b"]}}},
        {"when": None, "state": "a"},
    ),
    "types in capitals and nullable, as Gemini": (
        {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "nullable": True}}, "required": ["n"]},
        {"n": 1},
    ),
    "names of Python": ({"type": "dict", "properties": {"x": {"type": "float", "maximum": 1}}, "required": ["x"]}, {"x": 1.0}),
    "no parameters": ({}, {}),
    "no type": ({"properties": {"on": {"type": "boolean"}}, "required": ["on"]}, {"on": True}),
    "a default": ({"properties": {"x": {"type": "string", "default": "main"}}, "required": ["x"]}, {"x": "main"}),
    "examples": ({"properties": {"x": {"type": "string", "examples": ["u/v"]}}, "required": ["x"]}, {"x": "u/v"}),
    "one of two groups": (
        {"properties": {"a": {"const": 1}, "b": {"const": 2}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": 1},
    ),
    "arguments behind a reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"properties": {"x": {"const": "y"}}}, {"required": ["x"]}]}}},
        {"x": "y"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_of_servers_is_understood(name: str) -> None:
    schema, wanted = DIALECTS[name]
    assert wanted in drawn(schema)


def nested(levels: int) -> dict[str, Any]:
    """A schema in so many records."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    return schema


DOUBLED = {f"A{n}": {"anyOf": [{"$ref": f"#/$defs/A{n + 1}"}] * 2} for n in range(40)} | {"A40": {"type": "array"}}
TWICE = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}
ENDLESS: dict[str, Any] = {
    "a reference to itself": {"properties": {"x": {"$ref": "#/properties/x"}}, "required": ["x"]},
    "a circle of choices": {"properties": {"x": TWICE}, "required": ["x"], "$defs": {"A": TWICE}},
    "choices that double": {"properties": {"title": {"$ref": "#/$defs/A0"}}, "required": ["title"], "$defs": DOUBLED},
    "a record that must hold itself": {"properties": {"x": {"$ref": "#"}, "y": {"$ref": "#"}}, "required": ["x", "y"]},
    "a list of itself": {"properties": {"x": {"type": "array", "minItems": 10**9, "items": {"$ref": "#"}}}, "required": ["x"]},
    "a reference into nowhere": {"properties": {"x": {"$ref": "#/$defs/Lost"}, "y": {"$ref": "http://["}}, "required": ["x"]},
    "50,000 levels": nested(50_000),
    "a pattern that takes forever": {"properties": {"x": {"type": "string", "pattern": "^(a|a)*(a|a)*(a+)+b$"}}, "required": ["x"]},
    "no value at all": {"properties": {"x": False}, "required": ["x"]},
    "bounds without numbers": {"properties": {"x": {"type": "number", "minimum": 10**400, "maximum": 1e308}}, "required": ["x"]},
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_schema_without_an_end_or_a_value_ends_the_search_without_an_error(name: str) -> None:
    drawn(ENDLESS[name], 3)


WORDS = ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "items", "properties", "required", "default", "pattern",
         "minimum", "exclusiveMaximum", "multipleOf", "minItems", "nullable", "$defs", "format", "examples", "x"]  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from(["string", "integer", "array", "object", "null", "#", "#/properties/x", "#/$defs/x", "(", "date"]),
)  # fmt: skip
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)),
)


@settings(deadline=None, max_examples=100)
@given(JUNK, st.booleans())
def test_any_json_as_a_schema_raises_no_error(junk: Any, within: bool) -> None:
    drawn({"properties": {"x": junk}, "required": ["x"]} if within else junk, 1)


def test_records_that_a_server_sends_as_several_texts_are_values() -> None:
    assert observed('{\n  "id": 4\n}\n{\n  "id": 5\n}') == [("id", 4), ("id", 5)]
    for plain in ("two\nlines", "}\n{", '{"a": 1}\nand {"b": 2}'):
        assert observed(plain) == [("", plain)]

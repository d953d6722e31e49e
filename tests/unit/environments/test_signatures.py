"""Type hints as people write them: the agent gets a schema and the method its type, or one line names the remedy."""

# ruff: noqa: UP007, UP045

import dataclasses
import json
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from coevolve.core.task import ToolCall
from coevolve.environments.tool_schema import tool_schema
from coevolve.trainers.replay import refusal
from tests.unit.environments.simulated import (
    JSON,
    TEXT,
    WHOLE,
    Colour,
    Mood,
    Order,
    Place,
    Rate,
    Size,
    Stop,
    Table,
    Ticket,
    Tour,
    begun,
    environment,
    said,
    shown,
)


def taking(hint: Any) -> type:
    """A simulator with a tool whose argument has this type hint."""

    class Box:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def put(self, value: hint) -> str:
            self.kept.append(value)
            return repr(value)

    return Box


NUMBER = {"type": "number"}
PLACE = {"type": "object", "properties": {"row": WHOLE, "height": {**NUMBER, "default": 0.0}}, "required": ["row"]}
STOP = {"type": "object", "properties": {"town": TEXT, "minutes": WHOLE}, "required": ["town"]}
ID = "0b0f1d52-6a1e-4c39-9d0e-3f5b7c1a2d48"
HINTS: list[tuple[Any, JSON, Any, JSON]] = [  # a type hint, what an agent sends, what the method gets, the schema
    (str, "a", "a", TEXT),
    (int, 7.0, 7, WHOLE),
    (float, 5, 5.0, NUMBER),
    (bool, True, True, {"type": "boolean"}),
    (None, None, None, {"type": "null"}),
    (Literal["free", 3], "free", "free", {"enum": ["free", 3]}),
    (Optional[Literal["free"]], None, None, {"anyOf": [{"type": "string", "const": "free"}, {"type": "null"}]}),
    (Colour, "red", Colour.RED, {**TEXT, "enum": ["red", "blue"]}),
    (Size, 2.0, Size.LARGE, {**WHOLE, "enum": [1, 2]}),
    (Mood, "good", Mood.GOOD, {**TEXT, "enum": ["good"]}),
    (Rate, 1, Rate.WHOLE, {**NUMBER, "enum": [0.5, 1.0]}),
    (int | None, 3, 3, {"anyOf": [WHOLE, {"type": "null"}]}),
    (Optional[str], None, None, {"anyOf": [TEXT, {"type": "null"}]}),
    (Union[int, str], "x", "x", {"anyOf": [WHOLE, TEXT]}),
    (list, [1, "a"], [1, "a"], {"type": "array", "items": {}}),
    (list[list[int]], [[1.0]], [[1]], {"type": "array", "items": {"type": "array", "items": WHOLE}}),
    (dict, {"a": 1}, {"a": 1}, {"type": "object", "additionalProperties": True}),
    (dict[str, str], {"a": "b"}, {"a": "b"}, {"type": "object", "additionalProperties": TEXT}),
    (dict[int, float], {"1": 2}, {1: 2.0}, {"type": "object", "additionalProperties": NUMBER}),
    (Mapping[str, int], {"a": 1}, {"a": 1}, {"type": "object", "additionalProperties": WHOLE}),
    (Table, {"a": [1]}, {"a": [1]}, {"type": "object", "additionalProperties": {"type": "array", "items": WHOLE}}),
    (Any, {"a": [2.5]}, {"a": [2.5]}, {}),
    (object, "a", "a", {}),
    (date, "2027-01-02", date(2027, 1, 2), {**TEXT, "format": "date"}),
    (datetime, "2027-01-02T03:04:05", datetime(2027, 1, 2, 3, 4, 5), {**TEXT, "format": "date-time"}),
    (timedelta, "PT30M", timedelta(minutes=30), {**TEXT, "format": "duration"}),
    (Decimal, 2.5, Decimal("2.5"), NUMBER),
    (uuid.UUID, ID, uuid.UUID(ID), {**TEXT, "format": "uuid"}),
    (pathlib.Path, "a/b", pathlib.Path("a/b"), {**TEXT, "format": "path"}),
    (bytes, "a", b"a", {**TEXT, "format": "binary"}),
    (tuple[int, str], [1, "a"], (1, "a"), {"type": "array", "prefixItems": [WHOLE, TEXT], "minItems": 2, "maxItems": 2}),
    (tuple[int, ...], [1, 2], (1, 2), {"type": "array", "items": WHOLE}),
    (set[str], ["a"], {"a"}, {"type": "array", "items": TEXT, "uniqueItems": True}),
    (Sequence[int], [1], [1], {"type": "array", "items": WHOLE}),
    (Annotated[int, Field(ge=1, le=9, description="days")], 9, 9, {**WHOLE, "minimum": 1, "maximum": 9, "description": "days"}),
    (Annotated[int, "how many"], 9, 9, {**WHOLE, "description": "how many"}),
    (Ticket, 3, 3, WHOLE),
    (Place, {"row": 1, "height": 2}, Place(1, 2.0), {**PLACE, "description": "Where it is."}),
    (list[Place], [{"row": 1}], [Place(1)], {"type": "array", "items": {**PLACE, "description": "Where it is."}}),
    (Stop, {"town": "Rome"}, {"town": "Rome"}, STOP),
    (Tour, {"stops": [{"town": "Rome"}]}, {"stops": [{"town": "Rome"}]},
     {"type": "object", "properties": {"stops": {"type": "array", "items": STOP}}, "required": ["stops"]}),
    (Order, {"number": 1, "places": [{"row": 2}]}, Order(number=1, places=[Place(2)]),
     {"type": "object", "required": ["number"], "properties": {
         "number": {**WHOLE, "minimum": 1, "description": "its number"},
         "places": {"type": "array", "default": [], "items": {**PLACE, "description": "Where it is."}}}}),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "sent", "got", "schema"), HINTS, ids=lambda one: str(one)[:40])
def test_methods_get_the_type_of_the_hint_and_agents_its_schema(hint: Any, sent: JSON, got: Any, schema: JSON) -> None:
    simulator = taking(hint)
    session = begun(simulator)
    assert said(session, "put", value=sent) == repr(got)
    assert shown(simulator)["put"]["value"] == schema
    whole = tool_schema(environment(simulator).tools()[0]["function"])
    assert not whole.remarks
    assert whole.fitting([sent], whole.flat()["properties"]["value"]) == [sent], "explorers know that it fits"
    made = environment(simulator, ToolCall("put", {"value": got}))
    assert not refusal(made, made.tasks("seed")[0]), "a reference may hold what the method gets"


@pytest.mark.parametrize(
    ("hint", "sent", "text"),
    [
        (float, "5", "put: value: Input should be a valid number"),
        (int, "7", "put: value: Input should be a valid integer"),
        (int, True, "put: value: Input should be a valid integer"),
        (int, 7.5, "put: value: Input should be a valid integer"),
        (bool, 1, "put: value: Input should be a valid boolean"),
        (
            date,
            "2. 1. 2027",
            "put: value: Input should be a valid date in the format YYYY-MM-DD, invalid character in year",
        ),
        (Literal["free", "rented"], "sold", "put: value: Input should be 'free' or 'rented'"),
        (Colour, "green", "put: value: Input should be 'red' or 'blue'"),
        (
            int | str,
            1.5,
            "put: value.int: Input should be a valid integer; value.str: Input should be a valid string",
        ),
        (Annotated[int, Field(ge=1)], 0, "put: value: Input should be greater than or equal to 1"),
        (Annotated[str, Field(min_length=2)], "", "put: value: String should have at least 2 characters"),
        (list[Stop], [{"town": "a"}, {}], "put: value.1.town: Field required"),
        (Stop, {"town": "a", "x": 1}, "put: value.x: Extra inputs are not permitted"),
        (Place, {"row": 1, "x": 1}, "put: value.x: Unexpected keyword argument"),
        (dict[str, int], {"a": "b"}, "put: value.a: Input should be a valid integer"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_line(hint: Any, sent: JSON, text: str) -> None:
    session = begun(taking(hint))
    before = session.digest()
    assert said(session, "put", value=sent) == f"error: {text}"
    assert said(session, "put", value=sent, other=1).startswith("error: put: ")
    assert said(session, "put") == "error: put: value: Field required"
    assert len(said(session, "put", **{"x" * 9999: 1})) < 600
    assert session.digest() == before


# --- values cross the border by type and by copy

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**40), 2**40),
    float: st.floats(-1e6, 1e6) | st.integers(-9, 9),
    str: st.text(st.characters(codec="utf-8"), max_size=5),
    bool: st.booleans(),
    Decimal: st.integers(-99, 99) | st.sampled_from([0.5, 2.25]),
    Any: st.floats(-1e6, 1e6) | st.integers(-9, 9) | st.none() | st.text("ab"),
}
VALUES: st.SearchStrategy[tuple[Any, Any]] = st.recursive(
    st.one_of(*(st.tuples(st.just(hint), values) for hint, values in LEAVES.items())),
    lambda inner: inner.flatmap(
        lambda one: st.sampled_from(
            [
                (list[one[0]], [one[1], one[1]]),
                (dict[str, one[0]], {"a": one[1]}),
                (Optional[one[0]], one[1]),
                (tuple[one[0], ...], [one[1]]),
                (list, [one[1]]),
                (Any, {"a": one[1]}),
            ]
        )
    ),
    max_leaves=4,
)


def respelled(value: JSON) -> JSON:
    """An equal value: 5 for 5.0, 7.0 for 7, and -0.0 for 0."""
    if isinstance(value, list):
        return [respelled(one) for one in value]
    if isinstance(value, dict):
        return {key: respelled(one) for key, one in value.items()}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return float(value) or -0.0
    return int(value) if value.is_integer() else value


@settings(max_examples=60, deadline=None)
@given(VALUES, st.booleans())
def test_an_agent_that_says_an_equal_value_scores_as_the_reference_and_nothing_changes(
    value: tuple[Any, JSON], reads: bool
) -> None:
    class Greedy:
        """It keeps what it gets, changes it later, and gives it away."""

        def __init__(self, first: JSON) -> None:
            self.kept = [first]

        def put(self, value: value[0]) -> JSON:  # type: ignore[valid-type]
            if not reads:
                self.kept.append(value)
            for one in self.kept:
                if isinstance(one, list):
                    one.append("more")
                if isinstance(one, dict):
                    one["more"] = 1
            return value

    _, sent = value
    made = environment(
        Greedy,
        ToolCall("put", {"value": sent}),
        ToolCall("put", {"value": sent}),
        world={"first": 1 if reads else sent},
    )
    [task] = made.tasks("seed")
    before = json.dumps(dataclasses.asdict(task))
    calls = [ToolCall("put", {"value": respelled(sent)}), ToolCall("put", {"value": sent})]
    written = json.dumps([call.arguments for call in calls])
    session = made.open()
    session.reset(task)
    assert not [turn for turn in map(session.step, calls) if turn.error]
    assert session.score().reward == 1.0
    assert json.dumps([call.arguments for call in calls]) == written
    assert not refusal(made, task)
    assert json.dumps(dataclasses.asdict(task)) == before


def test_numbers_of_a_world_and_of_answers_compare_by_value() -> None:
    class Scale:
        def __init__(self, load: Any) -> None:
            self.load = load

        def weigh(self, unit: str = "kg") -> Any:
            return {"load": self.load} if unit == "kg" else {"load": float(self.load)}

    made = environment(Scale, ToolCall("weigh"), world={"load": 5})
    session = made.open()
    session.reset(made.tasks("seed")[0])
    assert said(session, "weigh", unit="other") == '{"load": 5.0}'
    assert session.score().reward == 1.0
    assert begun(Scale, load=0).digest() == begun(Scale, load=-0.0).digest() != begun(Scale, load=False).digest()

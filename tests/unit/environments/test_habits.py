"""Simulators as people write them: each habit works, or one line names what does not and the remedy."""

# ruff: noqa: UP007, UP045

import asyncio
import dataclasses
import functools
import itertools
import json
import logging
import pathlib
import sqlite3
import threading
import typing
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from random import Random
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NewType, Optional, TypeAlias, Union

import numpy as np
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.environments.environment import EnvironmentFailed, Session
from coevolve.environments.methods import MethodEnvironment
from coevolve.environments.tool_schema import tool_schema
from coevolve.trainers.replay import refusal
from tests.unit.environments.postponed import Item, Prices, Shelf, Unreadable

JSON = Any


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Mood(StrEnum):
    GOOD = "good"


class Rate(Enum):
    HALF = 0.5
    WHOLE = 1.0


@dataclasses.dataclass(frozen=True)
class Place:
    """Where it is."""

    row: int
    height: float = 0.0


@dataclasses.dataclass
class Basket:
    places: list[Place] = dataclasses.field(default_factory=list)
    note: str | None = None


class Stop(typing.TypedDict):
    town: str
    minutes: typing.NotRequired[int]


class Tour(typing_extensions.TypedDict):
    stops: list[Stop]


class Order(BaseModel):
    number: int = Field(ge=1, description="its number")
    places: list[Place] = []


Ticket = NewType("Ticket", int)
Table: TypeAlias = dict[str, list[int]]


def environment(simulator: Any, *calls: ToolCall, world: Mapping[str, JSON] | None = None) -> MethodEnvironment:
    """An environment with one task in each split."""

    class Plain(MethodEnvironment):
        name = "plain"

        def questions(self, split: str) -> list[tuple[str, dict[str, JSON], list[ToolCall]]]:
            return [("do it", dict(world or {}), list(calls))]

    Plain.simulator = simulator
    return Plain()


def begun(simulator: Any, **world: JSON) -> Session:
    made = environment(simulator, world=world)
    session = made.open()
    session.reset(made.tasks("seed")[0])
    return session


def said(session: Session, tool: str, **arguments: JSON) -> str:
    turn = session.step(ToolCall(tool, arguments))
    return f"error: {turn.content}" if turn.error else turn.content


def shown(simulator: Any) -> dict[str, JSON]:
    """Tool → the properties of its schema."""
    functions = [one["function"] for one in environment(simulator).tools()]
    return {one["name"]: inlined(one["parameters"])["properties"] for one in functions}


def inlined(schema: JSON, definitions: Mapping[str, JSON] | None = None) -> JSON:
    """A schema without references and titles, and without the word that records take no other keys."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if isinstance(schema, list):
        return [inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    target = definitions.get(schema.get("$ref", "").removeprefix("#/$defs/"), {})
    return {
        key: inlined(one, definitions)
        for key, one in {**target, **schema}.items()
        if key not in ("$ref", "$defs")
        and not (key == "title" and isinstance(one, str))
        and (key, one) != ("additionalProperties", False)
    }


def taking(hint: Any) -> type:
    """A simulator with a tool whose argument has this type hint."""

    class Box:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def put(self, value: hint) -> str:
            self.kept.append(value)
            return repr(value)

    return Box


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
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


# --- what a tool is


class Desk:
    def __init__(self) -> None:
        self.price = 3

    def look(self) -> int:
        """Look at it."""
        return self.price

    @property
    def total(self) -> int:
        return self.price

    @total.setter
    def total(self, value: int) -> None:
        self.price = value

    @staticmethod
    def hours(day: str) -> str:
        return f"8 to 18 on {day}"

    @classmethod
    def made(cls) -> "Desk":
        return cls()

    def reset(self, rows: list[int], **more: int) -> None: ...
    def reward(self) -> float: ...
    def get_reward(self) -> float: ...
    def state(self) -> JSON:
        return self.price


def logged(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        return method(*given, **named)

    return call


class Wide(Desk):
    __slots__ = ("count",)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @logged
    def add(self, *, amount: int = 1, much: bool = False) -> int:
        self.count += amount
        return self.count

    @typing.overload
    def find(self, key: int) -> str: ...
    @typing.overload
    def find(self, key: str) -> str: ...
    def find(self, key: int | str) -> str:
        return str(key)

    @functools.lru_cache  # noqa: B019
    def twice(self, number: int) -> int:
        return 2 * number

    def send(self, json: str, copy: int, from_: Annotated[str, Field(alias="from")]) -> list[Any]:
        return [json, copy, from_]

    look_again = Desk.look


def test_public_methods_are_tools_and_nothing_else() -> None:
    assert list(shown(Desk)) == ["hours", "look"]
    assert list(shown(Wide)) == ["add", "find", "hours", "look", "look_again", "send", "twice"]
    assert shown(Wide)["add"] == {"amount": {**WHOLE, "default": 1}, "much": {"type": "boolean", "default": False}}
    session = begun(Wide)
    assert [said(session, "hours", day="Monday"), said(session, "look_again")] == ["8 to 18 on Monday", "3"]
    assert said(session, "send", **{"json": "a", "copy": 1, "from": "b"}) == '["a", 1, "b"]'
    assert [said(session, "add"), said(session, "twice", number=2), said(session, "find", key=1)] == ["1", "4", "1"]
    assert said(session, "reset") == "error: there is no tool 'reset'"


def test_a_simulator_may_be_a_dataclass_or_a_pydantic_model() -> None:
    @dataclasses.dataclass
    class Data:
        lit: list[str]

        def light(self, room: str) -> None:
            self.lit.append(room)

    class Model(BaseModel):
        lit: list[str]
        _count: int = 0

        def light(self, room: str) -> None:
            self._count += 1
            self.lit.append(room)

    for simulator in (Data, Model):
        assert list(shown(simulator)) == ["light"]
        session = begun(simulator, lit=["a"])
        before = session.digest()
        assert said(session, "light", room="b") == "null"
        assert session.digest() != before


def test_annotations_may_be_text() -> None:
    session = begun(Prices)
    assert said(session, "charge", amount=2.5, unit="euro") == "[Decimal('2.5'), 'EURO']"
    assert said(session, "plant", tree={"name": "a", "inner": [{"name": "b"}]}) == '["a", "b"]'
    parameters = {one["function"]["name"]: one["function"] for one in environment(Prices).tools()}
    assert tool_schema(parameters["plant"]).remarks == []


GOOGLE = """Book a machine.

        It must be free.

        Args:
            days: How many days,
                from tomorrow on.
            machine (str): Which one.

        Returns:
            The booking.
        """
NUMPY = """Book a machine.

        Parameters
        ----------
        days : int
            How many days,
            from tomorrow on.
        machine
            Which one.

        Returns
        -------
        str
            The booking.
        """
SPHINX = """Book a machine.

        :param days: How many days,
            from tomorrow on.
        :param str machine: Which one.
        :returns: The booking.
        """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, *(one.replace("\n\n", "\n") for one in (NUMPY, SPHINX))])
def test_docstrings_describe_tools_and_arguments(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    class Rental:
        def book(
            self, days: int, machine: Annotated[str, Field(description="Its name.")] = "saw", note: str = ""
        ) -> str:
            return ""

        def bare(self) -> None: ...

    Rental.book.__doc__ = text
    bare, book = (one["function"] for one in environment(Rental).tools())
    assert book["description"] == "Book a machine."
    assert book["parameters"]["properties"] == {
        "days": {**WHOLE, "description": "How many days, from tomorrow on."},
        "machine": {**TEXT, "description": "Its name.", "default": "saw"},
        "note": TEXT,
    }
    assert book["parameters"]["required"] == ["days"]
    nothing = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert (bare["description"], bare["parameters"]) == ("bare", nothing)
    assert capfd.readouterr() == ("", "")


class Elsewhere:
    def go(self, where: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unusable(**annotations: Any) -> type:
    def go(self: Any, where: Any) -> None: ...

    go.__annotations__ = annotations
    return type("Rover", (), {"go": go})


class Helper:
    def lookup(self, rows, key): ...  # type: ignore[no-untyped-def]


class Options:
    def go(self, where: str, **options: str) -> None: ...


class Many:
    def go(self, *places: str) -> None: ...


class Bare:
    def go(self, where: str, /) -> None: ...


class Questioned:
    def state(self, room: str) -> str:
        return room


class Defaulted:
    def go(self, where: int = Field(3, ge=1)) -> None: ...


@pytest.mark.parametrize(
    ("simulator", "text"),
    [
        (Helper, "Helper.lookup: rows needs a type hint, as in `rows: str`; if it is no tool, rename it to _lookup"),
        (Options, "Options.go: options cannot be given by name; name each argument with its type hint"),
        (Many, "Many.go: places cannot be given by name; name each argument with its type hint"),
        (Bare, r"Bare.go: where cannot be given by name; .*without \* and /"),
        (Defaulted, r"Defaulted.go: where has a Field as its default; write Annotated\[type, Field\(...\)\] = default"),
        (
            Elsewhere,
            "Elsewhere.go: where has a type hint .*cannot be used .*'Nowhere' is not defined.* rename it to _go",
        ),
        (
            Unreadable,
            "Unreadable.charge: amount has a type hint .*'Fraction' is not defined.*; .* import it at run time",
        ),
        (unusable(where=Callable[[int], int]), "Rover.go: where has a type hint .*cannot be used .*Callable"),
        (unusable(where=sqlite3.Connection), "Rover.go: where has a type hint .*cannot be used .*Connection"),
        (unusable(where=typing.Self), "Rover.go: where has a type hint with typing.Self, which stands for other types"),
        (
            unusable(where=list[Item]),
            "Rover.go: where has a type hint with ~Item, which stands for other types; hint one",
        ),
        (Shelf, "Shelf.put: item has a type hint with ~Item, which stands for other types; hint one of them"),
        (Questioned, "Questioned.state may take no arguments.*; rename it if it is a tool"),
        (len, "expected a class, whose public methods are the tools"),
    ],
)
def test_what_an_agent_could_not_call_is_one_line_when_the_environment_opens(simulator: Any, text: str) -> None:
    with pytest.raises(CoevolveError, match=text) as raised:
        environment(simulator)
    assert "\n" not in str(raised.value)
    assert "http" not in str(raised.value)


# --- answers


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (Mood.GOOD, "good"),
        (None, "null"),
        (5.0, "5.0"),
        ([Place(1)], '[{"row": 1, "height": 0.0}]'),
        (Basket([Place(2)]), '{"places": [{"row": 2, "height": 0.0}], "note": null}'),
        (Order(number=3), '{"number": 3, "places": []}'),
        ({"é": date(2027, 1, 2), 3: Decimal("1.50")}, '{"é": "2027-01-02", "3": "1.5"}'),
        ({Colour.RED: {"b", "a"}}, '{"red": ["a", "b"]}'),
        ((number for number in range(2)), "[0, 1]"),
        ({1: 2}.items(), "[[1, 2]]"),
        (np.arange(2), "[0, 1]"),
        ([np.float64(0.5), np.int64(2), np.bool_(True)], "[0.5, 2, true]"),
        (1 + 2j, "1+2j"),
        (b"ab", "ab"),
    ],
)
def test_results_reach_the_agent_as_json(result: Any, text: str) -> None:
    class Giver:
        def give(self) -> Any:
            return result

    assert said(begun(Giver), "give") == text


def test_a_result_that_is_no_json_is_named() -> None:
    class Giver:
        def give(self) -> Any:
            return Random(1)

    with pytest.raises(
        CoevolveError, match=r"Giver\.give returns a Random that cannot be written as JSON .*; return text"
    ):
        said(begun(Giver), "give")


class BookingError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such day"), "no such day"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("not held"), "RuntimeError: not held"),
        (BookingError("not free"), "BookingError: not free"),
        (AssertionError(), "AssertionError"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_an_exception_is_an_answer_and_the_world_is_as_before(error: Exception, text: str, late: bool) -> None:
    class Fragile:
        __slots__ = ("__dict__", "steps")

        def __init__(self) -> None:
            self.steps: list[int] = []
            self.by_name = {"steps": self.steps}

        def walk(self, steps: int) -> Any:
            self.steps.append(steps)
            self.more = steps
            if steps > 1:
                if late:
                    return self._fail()
                raise error
            return self.by_name["steps"]

        def _fail(self) -> Generator[int]:
            yield 1
            raise error

    session = begun(Fragile)
    assert said(session, "walk", steps=1) == "[1]"
    before = session.digest()
    assert said(session, "walk", steps=2) == f"error: {text}"
    assert session.digest() == before
    assert said(session, "walk", steps=1) == "[1, 1]", "the attributes still share their list"


@pytest.mark.parametrize(
    "error",
    [SystemExit(1), KeyboardInterrupt(), MemoryError(), OSError(28, "No space left"), EnvironmentFailed("gone")],
)
def test_failures_of_the_process_and_the_machine_are_no_answers(error: BaseException) -> None:
    class Fragile:
        def walk(self) -> None:
            raise error

    session = begun(Fragile)
    with pytest.raises(type(error)):
        said(session, "walk")


class Slow:
    """Its coroutines share an event loop, and a lock that belongs to it."""

    def __init__(self) -> None:
        self.rooms: list[str] = []
        self.lock = asyncio.Lock()
        self.loops: set[int] = set()

    async def light(self, room: str) -> int:
        async with self.lock:
            await asyncio.sleep(0)
            self.rooms.append(room)
            if room == "":
                raise ValueError("which room?")
            self.loops.add(id(asyncio.get_running_loop()))
            return len(self.loops)

    def count(self) -> int:
        return len(self.rooms)

    def state(self) -> JSON:
        return self.rooms


def test_async_methods_are_awaited_in_a_loop_of_the_episode() -> None:
    def play() -> list[str]:
        session = begun(Slow)
        heard = [said(session, "light", room=room) for room in ("a", "", "b")]
        heard.append(said(session, "count"))
        session.close()
        return heard

    async def within() -> list[str]:
        return play()

    assert play() == asyncio.run(within()) == ["1", "error: which room?", "1", "2"]


# --- state


class Room:
    def __init__(self, name: str) -> None:
        self.name = name
        self.exits: list[str] = []


class Opened:
    pass


class Closed:
    pass


class Rich:
    """Attributes of many types. ``number`` changes each of them in its own way."""

    def __init__(self, number: int = 0, order: int = 1) -> None:
        names = ["hall", "attic", "cellar"][::order]
        self.text = set(names) - ({"attic"} if number == 1 else set())
        self.frozen = frozenset({Place(number == 2)})
        self.day = date(2027, 1, 1 + (number == 3))
        self.price = Decimal("5.0") if number == 4 else Decimal(2)
        self.by_colour = {Colour.RED: number == 5, Colour.BLUE: 1}
        self.by_number = {1: "a", 2: "b" if number == 6 else "c"}
        self.basket = [Basket([Place(1, 0.5 if number == 7 else 1)])]
        self.order = Order(number=2 if number == 8 else 1)
        self.ids = itertools.count(number == 9)
        self.array = np.array([0, number == 10])
        self.rooms = {name: Room(name) for name in sorted(names)}
        for one in self.rooms.values():
            one.exits = sorted(names)[:: -1 if number == 11 else 1]
        self.raw = b"a" if number == 12 else b""
        self.nested = (deep := {"a": [{"b"}, (1,)]}) | ({"c": deep} if number == 13 else {})
        self.space = SimpleNamespace(a=number == 14)
        self.phase = Closed() if number == 15 else Opened()


def test_attributes_of_all_types_count() -> None:
    digests = [begun(Rich, number=number).digest() for number in range(16)]
    assert len(set(digests)) == 16
    assert digests == [begun(Rich, number=number, order=-1).digest() for number in range(16)]


def test_objects_in_a_circle_need_a_method_state() -> None:
    class House:
        def __init__(self) -> None:
            self.hall = Room("hall")
            self.hall.owner = self  # type: ignore[attr-defined]

    with pytest.raises(CoevolveError, match=r"House\.hall is a Room that cannot be compared .* method `state\(\)`"):
        begun(House)


def test_what_says_nothing_about_the_world_is_left_out_with_a_note(capfd: pytest.CaptureFixture[str]) -> None:
    class Noted:
        def __init__(self, count: int = 0) -> None:
            self.count = count
            self.log = logging.getLogger("shop")
            self.lock = threading.Lock()
            self.dice = Random(count)
            self.rule = lambda: 1
            self.handlers = {"add": self.add, "other": len}

        @functools.cached_property
        def shown(self) -> int:
            return self.count

        def read(self) -> int:
            return self.shown

        def add(self) -> None:
            with self.lock:
                self.count += 1
            if self.count > 1:
                raise ValueError("full")

    session = begun(Noted)
    start = session.digest()
    assert said(session, "read") == "0"
    assert session.digest() == start, "what a property remembers is no state"
    assert said(session, "add") == "null"
    once = session.digest()
    assert [said(session, "add"), said(session, "add")] == ["error: full"] * 2, "a refusal frees the lock"
    assert session.digest() == once != start
    notes = capfd.readouterr().err.splitlines()
    assert notes == [
        "Noted.dice is not part of the state: it is a Random",
        "Noted.lock is not part of the state: it is a lock",
        "Noted.log is not part of the state: it is a Logger",
        "Noted.rule is not part of the state: it is a function",
    ]


class Shop:
    def __init__(self, pieces: int) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table stock (item text, pieces integer)")
        self.db.execute("insert into stock values ('lamp', ?)", (pieces,))

    def take(self, pieces: int) -> int:
        self.db.execute("update stock set pieces = pieces - ?", (pieces,))
        left: int = self.db.execute("select pieces from stock").fetchone()[0]
        if left < 0:
            raise ValueError("not so many")
        return left


class Stated(Shop):
    def state(self) -> JSON:
        return {(item, "left"): Decimal(pieces) for item, pieces in self.db.execute("select * from stock")}


class Locked(Shop):
    def __init__(self, pieces: int) -> None:
        super().__init__(pieces)
        self.cursor = self.db.cursor()


@pytest.mark.parametrize("kind", [Shop, Stated])
def test_a_database_is_compared_by_its_content_and_refused_calls_change_nothing(kind: type[Shop]) -> None:
    with pytest.raises(
        CoevolveError, match=r"Locked\.cursor is a Cursor that cannot be compared .* give Locked a method `state\(\)`"
    ):
        environment(Locked, world={"pieces": 9}).tasks("seed")
    session = begun(kind, pieces=9)
    assert [said(session, "take", pieces=2), said(session, "take", pieces=8)] == ["7", "error: not so many"]
    assert said(session, "take", pieces=7) == "0"
    made = environment(kind, ToolCall("take", {"pieces": 2}), world={"pieces": 9})
    assert not refusal(made, made.tasks("seed")[0])


def test_a_first_task_that_does_not_start_is_one_line() -> None:
    with pytest.raises(CoevolveError, match=r"plain: the first task of seed does not start: TypeError: .*'pieces'"):
        environment(Stated).tasks("seed")
    with pytest.raises(CoevolveError, match=r"plain: a world of seed is no JSON .*date"):
        environment(Stated, world={"pieces": date(2027, 1, 1)}).tasks("seed")

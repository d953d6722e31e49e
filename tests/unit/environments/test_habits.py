"""Simulators as people write them: each habit works, or one line names what does not and the remedy."""

import asyncio
import dataclasses
import functools
import sqlite3
import typing
from collections.abc import Callable, Generator
from datetime import date
from decimal import Decimal
from random import Random
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import BaseModel, Field

from coevolve.core.errors import CoevolveError
from coevolve.environments.environment import EnvironmentFailed
from coevolve.environments.tool_schema import tool_schema
from tests.unit.environments.postponed import Item, Prices, Shelf, Unreadable
from tests.unit.environments.simulated import (
    JSON,
    TEXT,
    WHOLE,
    Basket,
    Colour,
    Mood,
    Order,
    Place,
    begun,
    environment,
    said,
    shown,
)

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

"""The state of simulators as people write them: all attributes count, or one line says which do not."""

import functools
import itertools
import logging
import sqlite3
import threading
from datetime import date
from decimal import Decimal
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.trainers.replay import refusal
from tests.unit.environments.simulated import JSON, Basket, Colour, Order, Place, begun, environment, said


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

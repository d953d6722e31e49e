"""An environment from a plain class: the example of the documentation, added by an entry point."""

from dataclasses import replace
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.environments.methods import MethodEnvironment
from tests import ROOT
from tests.cli import coevolve

EXAMPLE = ROOT / "examples/mine"


def test_example_has_thirty_lines_and_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is importable and has its entry point, as if pip had installed it."""
    (tmp_path / "mine.py").write_text((EXAMPLE / "mine.py").read_text())
    about = tmp_path / "mine-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[coevolve.environments]\nmine = mine:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len((EXAMPLE / "mine.py").read_text().splitlines()) <= 30
    done = coevolve("env", "check", "mine", "--only", "contract", "runtime")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok") == 10


SHOP = """
from __future__ import annotations
from decimal import Decimal
from typing import Literal
from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment

class NoSuchThing(Exception): ...

class Shop:
    def __init__(self, things):
        self.prices, self.sizes, self.sold = {one: 5 for one in things}, {"small", "large"}, []

    async def sell(self, thing: str, price: Decimal, size: Literal["small", "large"] = "small", **CAUGHT) -> dict:
        if thing not in self.prices:
            raise NoSuchThing(thing)
        self.sold.append((thing, price, size))
        return {"sold": self.sold[-1]}

class Shops(MethodEnvironment):
    name, simulator = "shops", Shop

    def questions(self, split):
        number = ("seed", "validation", "test").index(split)
        for thing in ("lamp", "desk", "vase", "rug", "box", "pen")[number::3]:
            yield f"sell a {thing}", {"things": [thing, "cup"]}, [ToolCall("sell", {"thing": thing, "price": 5.0})]
"""


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ("", ""),
        (", unknown=0", "error: Shop.sell: unknown needs a type hint, as in `unknown: str`; if it is no tool, rename it to _sell"),
        (", **more: str", "error: Shop.sell: more cannot be given by name; name each argument with its type hint, without * and /; "
         "if it is no tool, rename it to _sell"),
    ],
)  # fmt: skip
def test_commands_check_a_class_or_show_one_line(tmp_path: Path, parameter: str, problem: str) -> None:
    file = tmp_path / f"shop{len(parameter)}.py"
    file.write_text(SHOP.replace(", **CAUGHT", parameter))
    done = coevolve("env", "check", f"{file}:Shops", "--only", "contract", "runtime")
    if problem:
        assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", problem)
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(" ok") == 10


class Counter:
    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, amount: int, twice: bool = False) -> str:
        """Add an amount.

        Not shown.
        """
        self.value += amount * (1 + twice)
        if self.value > 100:
            self.reason = "much"
            raise ValueError("too much")
        return str(self.value)

    def read(self) -> str:
        return str(self.value)


class Counting(MethodEnvironment):
    name, simulator = "counting", Counter

    def questions(self, split: str) -> list[tuple[str, dict[str, int], list[ToolCall]]]:
        return [
            ("add three", {"value": 1}, [ToolCall("add", {"amount": 3})]),
            ("what is it?", {"value": 2}, [ToolCall("read")]),
        ]


def rollout(task: Task, *calls: ToolCall) -> tuple[bool, list[bool]]:
    session = Counting().open()
    session.reset(task)
    errors = [session.step(call).error for call in calls]
    return is_success(session.score().reward), errors


def test_schemas_come_from_hints_and_docstrings() -> None:
    add, read = (tool["function"] for tool in Counting().tools())
    assert add["description"] == "Add an amount."
    assert add["parameters"]["properties"] == {
        "amount": {"type": "integer"},
        "twice": {"type": "boolean", "default": False},
    }
    assert add["parameters"]["required"] == ["amount"]
    assert read["description"] == "read"


def test_state_and_answers_are_judged() -> None:
    change, look = Counting().tasks("seed")
    assert rollout(change, ToolCall("add", {"amount": 1, "twice": True}), ToolCall("add", {"amount": 1})) == (
        True,
        [False] * 2,
    )
    assert rollout(change, ToolCall("add", {"amount": 4})) == (False, [False])
    assert rollout(look, ToolCall("read")) == (True, [False])
    assert rollout(look) == (False, [])
    assert rollout(look, ToolCall("read"), ToolCall("add", {"amount": 1})) == (False, [False] * 2)


class Stop(TypedDict):
    place: str
    minutes: int
    note: NotRequired[str]


class Touring:
    def __init__(self) -> None:
        self.stops: list[Stop] = []

    def plan(self, stops: list[Stop], names: list[str]) -> str:
        self.stops = stops
        return ", ".join(names)


class Tour(Counting):
    simulator = Touring


def test_lists_and_records_with_optional_keys_are_valid_arguments() -> None:
    [plan] = (tool["function"]["parameters"] for tool in Tour().tools())
    assert plan["properties"]["names"] == {"type": "array", "items": {"type": "string"}}
    assert plan["properties"]["stops"]["items"] == {"$ref": "#/$defs/Stop"}
    assert plan["$defs"]["Stop"]["required"] == ["place", "minutes"]
    session = Tour().open()
    session.reset(replace(Counting().tasks("seed")[0], world={}))

    def said(**arguments: object) -> str:
        return session.step(ToolCall("plan", arguments)).content

    stop = {"place": "Rome", "minutes": 3}
    assert said(stops=[stop, {**stop, "note": "by train"}], names=["a", "b"]) == "a, b"
    before = session.digest()
    assert said(stops=[{**stop, "minutes": "3"}], names=[]) == "plan: stops.0.minutes: Input should be a valid integer"
    assert said(stops=[stop, {"place": "Rome"}], names=[]) == "plan: stops.1.minutes: Field required"
    assert said(stops=[{**stop, "x": 1}], names=[]) == "plan: stops.0.x: Extra inputs are not permitted"
    assert said(stops=stop, names=[]) == "plan: stops: Input should be a valid array"
    assert said(stops=[], names=[1]) == "plan: names.0: Input should be a valid string"
    assert session.digest() == before


def test_error_names_a_parameter_without_a_hint() -> None:
    class Hintless:
        def go(self, where):  # type: ignore[no-untyped-def]
            return where

    class Broken(Counting):
        simulator = Hintless

    with pytest.raises(CoevolveError, match="where needs a type hint"):
        Broken()

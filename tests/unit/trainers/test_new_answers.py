"""A new task becomes a row whose columns hold the answer to its request, in whatever shape the class reads it."""

import json
import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.hashing import content_hash
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.environments.row_environment import RowEnvironment
from coevolve.trainers.new_answers import NewAnswers

NAMES = ("ann", "ben", "cat")
Levels = dict[str, int]


class Shelf:
    """Boxes on levels. A subclass reads the goal from its rows."""

    def reset(self, boxes: str, **row: Any) -> None:
        self.boxes = {name: {"level": level, "open": False} for name, level in json.loads(boxes).items()}
        self.row, self.moved = row, list[dict[str, Any]]()

    def move(self, name: str, level: int) -> str:
        """Move a box.

        Args:
            name: The box.
            level: The level.
        """
        self.boxes[name]["level"] = level
        self.moved.append({"name": name, "level": level})
        return f"{name} is on level {level}"

    def look(self, name: str) -> int:
        """Look where a box is.

        Args:
            name: The box.
        """
        return self.boxes[name]["level"]

    def _levels(self) -> Levels:
        return {name: box["level"] for name, box in self.boxes.items()}

    def get_reward(self) -> float:
        return float(self._levels() == self._goal())

    def _goal(self) -> Any:
        raise NotImplementedError


class Mapping(Shelf):
    def _goal(self) -> Any:
        return self.row["goal"]


class JsonText(Shelf):
    def _goal(self) -> Any:
        return json.loads(self.row["goal"])["levels"]


class Records(Shelf):
    def _goal(self) -> Any:
        return {record["name"]: record["level"] for record in self.row["expected"]}


class Lists(Shelf):
    def get_reward(self) -> float:
        return float([[one["name"], one["level"]] for one in self.moved] == self.row["moves"])


class Scalars(Shelf):
    def get_reward(self) -> float:
        return float(bool(self.moved) and self.moved[-1] == {"name": self.row["box"], "level": self.row["level"]})


class Database(Mapping):
    def reset(self, boxes: str, **row: Any) -> None:
        super().reset(boxes, **row)
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create table boxes (name text, level integer)")
        self.database.executemany("insert into boxes values (?, ?)", self._levels().items())
        self.boxes = {}

    def move(self, name: str, level: int) -> str:
        """Move a box.

        Args:
            name: The box.
            level: The level.
        """
        self.database.execute("update boxes set level = ? where name = ?", (level, name))
        return "done"

    look = None

    def _levels(self) -> Levels:
        if not self.boxes:
            return dict(self.database.execute("select name, level from boxes"))
        return super()._levels()


def columns(kind: type[Shelf], goal: Levels, name: str) -> dict[str, Any]:
    """The answer, as the class ``kind`` reads it."""
    return {
        Mapping: {"goal": goal},
        Database: {"goal": goal},
        JsonText: {"goal": json.dumps({"levels": goal, "weight": 2.5})},
        Records: {"expected": [{"name": one, "level": level} for one, level in goal.items()]},
        Lists: {"moves": [[name, goal[name]]]},
        Scalars: {"box": name, "level": goal[name]},
    }[kind]


def solving(kind: type[Shelf], boxes: Levels, name: str, level: int) -> tuple[dict[str, Any], list[ToolCall]]:
    """A row, and the call that solves it."""
    answer = columns(kind, {**boxes, name: level}, name)
    row = {"prompt": f"Move {name} to {level}", "boxes": json.dumps(boxes), **answer}
    return row, [ToolCall("move", {"name": name, "level": level})]


def world(kind: type[Shelf]) -> RowEnvironment:
    return RowEnvironment(kind)


def new(environment: RowEnvironment, row: dict[str, Any], words: str, calls: list[ToolCall]) -> Task:
    """A task that grew in the world of ``row``."""
    origin = Provenance(0, [], "e-0")
    return Task.create(environment.name, "seed", [words], row, [calls], provenance=origin)


KINDS = [Mapping, JsonText, Records, Lists, Scalars, Database]


@pytest.mark.parametrize("kind", KINDS)
@given(
    levels=st.lists(st.integers(0, 9), min_size=3, max_size=3),
    old=st.tuples(st.sampled_from(NAMES), st.integers(10, 14)),
    request_=st.tuples(st.sampled_from(NAMES), st.integers(15, 20)),
)
def test_row_of_a_new_task_is_the_one_that_a_person_would_write(
    kind: type[Shelf], levels: list[int], old: tuple[str, int], request_: tuple[str, int]
) -> None:
    environment, boxes = world(kind), dict(zip(NAMES, levels, strict=True))
    row, calls = solving(kind, boxes, *old)
    wanted, solution = solving(kind, boxes, *request_)
    answers = NewAnswers(environment, [environment.task_of(row, calls)])
    found, reason = answers.row(new(environment, row, wanted["prompt"], solution))
    assert reason == "" and found is not None and found.world == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_request_that_changes_nothing_is_no_row(kind: type[Shelf]) -> None:
    """Such a reward would come without a call, or never."""
    environment = world(kind)
    boxes = dict.fromkeys(NAMES, 1)
    row, calls = solving(kind, boxes, "ann", 3)
    tool = "move" if kind is Database else "look"
    arguments = {"name": "ben", **({"level": 1} if tool == "move" else {})}
    task = new(environment, row, "Where is ben?", [ToolCall(tool, arguments)])
    found, reason = NewAnswers(environment, [environment.task_of(row, calls)]).row(task)
    if kind in (Lists, Scalars) and tool == "move":
        assert found is not None
    else:
        assert found is None and "gets" in reason


class Lenient(Shelf):
    def get_reward(self) -> float:
        return 1.0


def test_reward_that_any_episode_gets_makes_no_row() -> None:
    environment = world(Lenient)
    row, calls = solving(Mapping, dict.fromkeys(NAMES, 1), "ann", 3)
    task = new(environment, row, "Move ben to 4", [ToolCall("move", {"name": "ben", "level": 4})])
    known = [environment.task_of(row, calls)]
    assert NewAnswers(environment, known).row(task) == (None, "an agent that does nothing gets 1")


def test_without_a_known_solution_no_column_changes() -> None:
    environment = world(Mapping)
    row, _ = solving(Mapping, dict.fromkeys(NAMES, 1), "ann", 3)
    before = content_hash(row)
    task = new(environment, row, "Move ben to 4", [ToolCall("move", {"name": "ben", "level": 4})])
    assert NewAnswers(environment, []).row(task) == (None, "its reference gets 0") and content_hash(row) == before

"""The page's section about a generator, each part against hand computation."""

import math
from pathlib import Path

import pytest

from coevolve.core.io import write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Exploration, Generation
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.report.page.generated import distances, examples, outcomes
from coevolve.stages.report.page.view import journey, origins

EASY, HALF = (Task.create("e", "s", [f"do {n} now"], {}, [[ToolCall("pay"), ToolCall("end")]]) for n in range(2))
TASKS = {task.task_id: task for task in (EASY, HALF)}


def spec(number: int, *tools: str, outcome: str = "accepted", task: Task | None = None, solved: int = 0, t: int = 0) -> Generation:  # fmt: skip
    """A generation. Its task, if it has one, was solved in ``solved`` of 8 episodes."""
    read = list(tools) or None
    text = f"<spec>{number}</spec>"
    episodes = 8 if task else 0
    return Generation(f"g{number}", t, "s", "p", text, read, None, outcome, task and task.task_id, solved, episodes)


WRITTEN = [
    spec(0, "pay", task=EASY, solved=8),
    spec(1, "pay", "lock", task=HALF, solved=4),
    spec(2, outcome="unreadable"),
    spec(3, "lock", outcome="gate: solvable"),
]


def test_distances_have_an_interval() -> None:
    (trained,) = distances(2, WRITTEN, 0.5)
    assert trained["policy"] == 2
    assert trained["success"] == pytest.approx((0.4 + 0.0) / 2)  # (8 + 1)/(8 + 2) and (4 + 1)/(8 + 2)
    assert trained["high"] - trained["success"] == pytest.approx(12.706 * 0.2, rel=1e-3)  # t of one degree of freedom
    assert distances(2, WRITTEN[:1], 0.5) == [], "one task has no interval"


def test_outcomes_are_counted_by_reason() -> None:
    assert [(one["outcome"], one["count"]) for one in outcomes(0, WRITTEN)] == [
        ("accepted", 2), ("gate: solvable", 1), ("unreadable", 1),
    ]  # fmt: skip


def test_examples_are_those_closest_to_the_target() -> None:
    first, second = examples(0, WRITTEN, TASKS, 0.5)
    assert (first["solved"], first["spec"], first["instruction"]) == ("4 of 8", "<spec>1</spec>", "do 1 now")
    assert second["solved"] == "8 of 8"


def test_generator_tasks_are_separated_from_random_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = exploration_of(WRITTEN[0])
    made, chance = (
        Task.create("e", "s", [name], {}, [[ToolCall("pay")]], provenance=Provenance(0, [], name))
        for name in (place, "x")
    )
    kinds = {place: "the generator"}
    assert {one["origin"]: one["tasks"] for one in origins([[made, chance, EASY]], kinds, ["rare"])} == {
        "seed tasks": 1, "the generator": 1, "no signal": 1,
    }  # fmt: skip
    explored = [Exploration(name, "e", 0, [], None, {}, None, [], [], [], "scripted") for name in (place, "x")]
    write_jsonl(Paths.explorations(0), explored)
    rows = journey(0, [], kinds, ["rare"])["rows"]
    assert [(one["kind"], one["explorations"]) for one in rows] == [("the generator", 1), ("no signal", 1)]
    assert all(math.isfinite(one["accepted"]) for one in rows)

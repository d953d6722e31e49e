"""The page's section about a generator, each part against hand computation."""

import math
from pathlib import Path

import pytest

from coevolve.core.io import write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Attempt, Exploration, Generation
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.report.page.generated import distances, examples, goals, lengths, outcomes, realized
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


def test_goals_are_shares_of_readable_specs_per_iteration() -> None:
    found = {(one["dataset"], one["tool"]): one["share"] for one in goals({0: WRITTEN, 1: [spec(9, "pay", t=1)]})}
    assert found == pytest.approx({(0, "pay"): 2 / 3, (0, "lock"): 2 / 3, (1, "pay"): 1.0, (1, "lock"): 0.0})


def test_lengths_cover_tasks_and_the_agents_tokens() -> None:
    found = {one["figure"]: one["value"] for one in lengths(0, WRITTEN, TASKS, {EASY.task_id: [10, 20], "other": [99]})}
    assert found == {
        "calls of the reference": 2, "words of the instruction": 3, "tokens of the agent in training": 15,
    }  # fmt: skip
    assert lengths(0, [], TASKS, {}) == []


def test_probed_pass_rate_is_compared_with_the_first_visit() -> None:
    visits = [Attempt(EASY.task_id, 1, 1, 0.75, 4, 3), Attempt(EASY.task_id, 1, 3, 0.5, 4, 2)]
    assert realized(WRITTEN, visits) == [{"probe": 1.0, "training": 0.75, "tasks": 1}]


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

"""The summary's table, curve and notes."""

from typing import Any

import pytest

from coevolve.core.params import Params
from coevolve.core.params import load as load_params
from coevolve.core.records import StopReason, Trajectory
from coevolve.stages.evaluate import Outcome, metrics
from coevolve.stages.report.summary import curve, flat, spent, table, weakest
from tests import ROOT

SUCCESSES = [60, 90, 92, 40]  # of 128 tasks, by policy


@pytest.fixture
def params() -> Params:
    loaded = load_params(ROOT / "params.yaml")
    return loaded.model_copy(update={"iterations": [type(loaded.iterations[0])(t=t, next=t + 1) for t in range(3)]})


def outcomes(successes: int) -> list[Outcome]:
    return [
        Outcome("validation", f"{n:016x}", "f", float(n < successes), n < successes, "done", 4, 40, {})
        for n in range(128)
    ]


NOTHING = dict.fromkeys(
    ("replies", "prompt_tokens", "completion_tokens", "cost", "dropped", "unanswered", "out of budget"), 0
)


@pytest.fixture
def summary(params: Params) -> dict[str, Any]:
    policies = [{"t": t, "panels": metrics(outcomes(count), params.evaluate, 0)} for t, count in enumerate(SUCCESSES)]
    one = {"signals": {"forgetting": 1, "boundary": 5, "rare": 3}, "candidates": 9, "accepted": 7}
    iterations = [{"t": t, **one, "rejected": {"needed": 2}} for t in range(3)]
    return {
        "environment": "miniworld", "seed": 0, "confidence": 0.95, "policies": policies, "iterations": iterations,
        "tasks": [64, 71, 78, 85], "champion": {"policy": 1, "panel": "validation", "challenges": [{"reason": "a reason"}]}, "notes": ["a note"],
        "budget": {"gradient steps": 60, "training episodes": 9600},
        "spent": spent(
            [{**one, "spent": {"explore": {**NOTHING, "replies": 30, "prompt_tokens": 4100, "completion_tokens": 100,
                                           "cost": 0.21, "dropped": 2}, "synthesize": NOTHING}}]
        ),
    }  # fmt: skip


def test_the_table_has_a_row_for_every_policy(summary: dict[str, Any]) -> None:
    text = table(summary)
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [row[:2] for row in rows] == [["0", "64"], ["1", "71"], ["2", "78"], ["3", "85"]]
    assert rows[0][2:8] == ["1", "5", "3", "9", "7", "0.47"]
    assert rows[3][2:7] == ["-"] * 5
    assert "Champion on validation: policies/1. a reason" in text
    assert "a note" in text
    assert "Asked of endpoints: 30 replies, 4,200 tokens, $0.21; 600 tokens, $0.0300 for each accepted task" in text
    assert "Budget: 60 gradient steps, 9,600 training episodes" in text
    assert "Replies lost: 2 dropped" in text
    assert "make ui" in text


def test_the_curve_has_a_line_for_every_policy_and_panel(summary: dict[str, Any]) -> None:
    lines = curve(summary).splitlines()
    assert lines[0] == "iteration,panel,success,low,high,tasks"
    assert len(lines) == 5
    assert lines[1].startswith("0,validation,0.46875,")


def test_metrics_of_the_pipeline_are_the_last_and_its_gain(summary: dict[str, Any]) -> None:
    found = flat(summary)
    assert found["validation/success"] == 40 / 128
    assert found["validation/gain"] == pytest.approx(-20 / 128)


def test_the_weakest_are_of_different_tasks() -> None:
    def one(name: str, task: str, score: float) -> Trajectory:
        return Trajectory(name, task, 0, 0, 0, 0, [], [], score, StopReason.DONE)

    many = [one("a", "x", 0.0), one("b", "x", 0.1), one("c", "y", 0.4), one("d", "z", 1.0)]
    assert [found.trajectory_id for found in weakest(many, 3)] == ["a", "c", "d"]
    assert [found.trajectory_id for found in weakest(many, 4)] == ["a", "c", "d", "b"]

"""An example page of the report, with markup in texts of agents and users."""

from dataclasses import replace
from typing import Any

from coevolve.core.champion import Challenge, Champion
from coevolve.core.outcomes import PanelMetrics
from coevolve.core.records import Signal
from coevolve.core.stage_summary import StageSummary
from coevolve.core.task import CallOutcome, Provenance, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.report.page.reader import added, groups
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.report.write import draw, render

PANELS = ("validation", "test")


def task(number: int, *names: str, provenance: Provenance | None = None) -> Task:
    calls = [[ToolCall(name) for name in names]]
    words = f"do <b>{number}</b> & more, then wait for a day or two before you begin to do it again"
    return Task.create("e", "s", [words], {}, calls, ["+".join(names)], provenance)


def attempt(one: Task, iteration: int, step: int, sample: int, score: float) -> Trajectory:
    messages = [
        {"role": "user", "content": one.turns[0]},
        {"role": "assistant", "content": "<script>alert(1)</script>"},
        {"role": "tool", "content": "ok " * 1000},
        {"role": "assistant", "content": '<tool_call>{"name": "pay", "arguments": {"x": 1}}</tool_call>'},
    ]
    name = f"{one.task_id}-{step}-{sample}"
    calls = [CallOutcome("pay", {"x": 1}, True, "ok " * 1000)]
    place, checks = (iteration, step, 0, sample), {"goal": score > 0.5}
    return Trajectory(name, one.task_id, *place, messages, calls, score, StopReason.DONE, [3], checks)


def signal(kind: str, iteration: int, shown: list[str], one: Task | None = None) -> Signal:
    pattern = None if one else ["pay", "find"]
    evidence: dict[str, Any] = {"mixed": 1, "steps": [[0, 1]]} if one else {"count": 2, "total": 90}
    return Signal(f"{kind}{iteration}", kind, iteration, one and one.task_id, pattern, 0.5, evidence, shown)


SEEDS = [task(n, "pay", "end") for n in range(3)]
ADDED = [task(9, "find", "end", provenance=Provenance(0, ["boundary0"], "x", pass_rate=0.25))]
ATTEMPTS = [attempt(one, 0, step, k, float(k % 2)) for step, one in enumerate(SEEDS) for k in range(4)]
SIGNALS = [
    signal("boundary", 0, [ATTEMPTS[0].trajectory_id], SEEDS[0]),
    signal("rare", 0, [ATTEMPTS[4].trajectory_id, ATTEMPTS[0].trajectory_id]),
]


KINDS = ["forgetting", "boundary", "rare"]
OTHER = [CallOutcome("find", {}, True, "ok " * 1000)]
BESIDE = {
    SEEDS[0].task_id: [
        ("reference", replace(attempt(SEEDS[0], 0, 0, -1, 1.0), trajectory_id="r")),
        ("hard negative", replace(attempt(SEEDS[0], 0, 0, 9, 0.25), trajectory_id="h", calls=OTHER)),
    ]
}
SUMMARY = Summary(
    run="abc",
    environment="e",
    seed=0,
    confidence=0.95,
    champion=Champion("test", 1, [Challenge(1, 0, 0.3, 0.1, 0.5, 0, True, "why <i>not</i>")]),
    budget={"gradient steps": 1000},
    notes=["a note", "another <b>note</b>"],
    policies=[
        {name: PanelMetrics(8, s, s - 0.1, s + 0.1, s, 2.0, 50.0, {"done": 8}) for name in PANELS} for s in (0.4, 0.7)
    ],
    stages=[
        StageSummary("tasks", 0, {"tasks": 3}, ["tasks"]),
        StageSummary("train", 0, {"gradient steps": 1000, "success": 0.25}, costs=["gradient steps"]),
        StageSummary("signals", 0, {"forgetting": 0, "boundary": 1, "rare": 1}, KINDS),
        StageSummary("verify", 0, {"not checked by words": 1}),
        StageSummary("validate", 1, {"tasks": 4}, ["tasks"]),
    ],
)  # fmt: skip


def example_page() -> str:
    read = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    links = {ATTEMPTS[0].trajectory_id: "g1"}
    return render(SUMMARY, draw(SUMMARY), read, [added(SEEDS, [*SEEDS, *ADDED], SIGNALS, [], links)])

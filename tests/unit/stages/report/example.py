"""The values of an example page of the report, with markup in texts of agents and users."""

from dataclasses import replace
from typing import Any

from coevolve.core.io import write_jsonl
from coevolve.core.outcomes import PanelMetrics
from coevolve.core.paths import Paths
from coevolve.core.records import Gate, Signal, Verdict
from coevolve.core.stage_summary import StageSummary
from coevolve.core.task import CallOutcome, Provenance, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.report.page.verification import measured, outcomes, selection, unchecked
from coevolve.stages.report.page.view import groups, origins, strength
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.validate.indicators import Indicator
from coevolve.stages.verify.select import GATE
from coevolve.tracking.champion import Challenge, Champion

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
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "pay", "arguments": {"x": 1}}}]},
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
ADDED = [task(9, "find", "end", provenance=Provenance(0, ["boundary0"], "x"))]
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
ONE = {"policy": 0, "generator": "trained", "success": 0.2, "low": 0.1, "high": 0.3}
GENERATOR = {
    "alpha": 0.5,
    "distances": [ONE, {**ONE, "generator": "not"}],
    "outcomes": [{"t": 0, "outcome": "accepted", "count": 3}, {"t": 0, "outcome": "unreadable", "count": 1}],
    "examples": [{"t": 0, "spec": "<spec>{}</spec>", "instruction": "pay <b>", "task_id": "x", "solved": "4 of 8"}],
}
SUMMARY = Summary(
    run="abc",
    environment="e",
    seed=0,
    confidence=0.95,
    champion=Champion("test", 1, [Challenge(1, 0, 0.3, 0.1, 0.5, 0, True, "why <i>not</i>")]),
    budget={"gradient steps": 1000},
    notes=["a note"],
    policies=[
        {name: PanelMetrics(8, s, s - 0.1, s + 0.1, s, 2.0, 50.0, {"done": 8}) for name in PANELS} for s in (0.4, 0.7)
    ],
    stages=[
        StageSummary("tasks", 0, {"tasks": 3}, ["tasks"]),
        StageSummary("train", 0, {"gradient steps": 1000, "success": 0.25}, costs=["gradient steps"]),
        StageSummary("signals", 0, {"forgetting": 0, "boundary": 1, "rare": 1}, KINDS),
        StageSummary("validate", 1, {"tasks": 4}, ["tasks"]),
    ],
)  # fmt: skip


def verdict(number: int, gate: Gate, rate: float | None) -> Verdict:
    gates = [Gate("readable", True), Gate("words_match", None, "no phrasebook <here>"), gate]
    return Verdict(f"c{number}", f"t{number}", gate.passed is True, gates, rate)


RATES = [0.5, 0.5, 0.0, 0.0, 1.0, 0.25, None]  # of candidates that passed every gate; the first two are kept
VERDICTS = [
    verdict(9, Gate("needed", False, "passes without call 0 (pay)"), None),
    *(verdict(n, Gate(GATE, n < 2, "" if n < 2 else "others are worth more"), rate) for n, rate in enumerate(RATES)),
]


def values_of_the_page() -> dict[str, Any]:
    for t in range(2):
        later = [Indicator("margin", 0.2, 3.0, None, "ok")] * t
        write_jsonl(Paths.indicators(t), [Indicator("drift", 0.7, 0.3, 0.6, "critical"), *later])
    kinds = {one.signal_id: str(one.kind) for one in SIGNALS}
    return {
        "summary": SUMMARY,
        "kinds": strength(SUMMARY),
        "origins": origins([SEEDS, [*SEEDS, *ADDED]], kinds, KINDS),
        "added": [{"t": 0, "tasks": 1, "families": 1, "new": 1, "most": [("find+end", 1)]}],
        "journey": [{"t": 0, "rows": [{"kind": "boundary", "signals": 1, "explorations": 2, "candidates": 2, "accepted": 1}]}],
        "outcomes": outcomes(0, VERDICTS),
        "unchecked": unchecked(0, VERDICTS),
        "selections": [selection(0, VERDICTS)],
        "generator": GENERATOR,
        "watch": measured(2),
        "groups": groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE),
    }  # fmt: skip

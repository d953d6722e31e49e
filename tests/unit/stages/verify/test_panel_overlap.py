"""A panel's task is refused in any spelling of its words, its world or its reference."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from coevolve.core.records import Verdict
from coevolve.core.task import Task, ToolCall
from coevolve.stages.verify.gates import ENVIRONMENT_GATES, unreadable
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests.unit.stages.train.small import WORLD

PANELS = {name: WORLD.tasks(name) for name in WORLD.panels}
LONG = next(task for task in PANELS["test"] if len(task.turns[0].split()) >= 14)
CALLS = [ToolCall("add_event", {"title": "yoga", "day": "monday"}), ToolCall("complete_task", {})]
REWORDED = "do whatever is wanted of you in this matter"
AROUND = "hello there my dear assistant one two three four five six"


def judged(*tasks: Task, environment: str = "miniworld", panels: Any = PANELS) -> list[Verdict]:
    lines = [json.dumps(asdict(task)) for task in tasks]
    return [one for one, _ in verify(environment, lines, Library([], panels, 0.9), words="none")]


def outcome(one: Verdict) -> str:
    return next((gate.name for gate in one.gates if gate.passed is False), "accepted")


def worded(text: str, seed: int = 7) -> Task:
    return Task.create("miniworld", "synthesized", [text], {"seed": seed}, [CALLS])


def shifted(start: int) -> Callable[[str], str]:
    return lambda text: "".join(chr(start + ord(c) - 97) if "a" <= c <= "z" else c for c in text)


TRICKS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "zero width in words": "\u200b".join,
    "mathematical": shifted(0x1D41A),
    "accents": lambda text: "".join(c + "\u0301" if c in "aeiou" else c for c in text),
    "dots between": lambda text: ".".join(text),
    "words around": lambda text: f"{AROUND} {text} {AROUND}",
    "words around, disguised": lambda text: f"{AROUND} {shifted(0x1D41A)(text)} {AROUND}",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_instruction_of_a_panel_is_recognized_in_any_spelling(trick: str) -> None:
    """Text with invisible characters is refused before it is compared."""
    task = worded(TRICKS[trick](LONG.turns[0]))
    *_, overlap = Library([], PANELS, 0.9).gates(task, None, WORLD)
    assert overlap.reason == "overlaps panel test"
    (found,) = judged(task)
    assert outcome(found) == ("readable" if unreadable(task.turns) else "panel_overlap"), task.turns


def test_short_panel_instruction_counts_only_in_its_own_world() -> None:
    short = next(task for task in PANELS["test"] if len(task.turns[0]) < 25)
    longer = f"{AROUND} {short.turns[0]} and put yoga on monday"
    (elsewhere,), (there,) = judged(worded(longer)), judged(worded(longer, short.world["seed"]))
    assert outcome(elsewhere) == "accepted"
    assert outcome(there) == "panel_overlap"


def resolved(task: Task, **changes: Any) -> Task:
    fields = {"world": task.world, "reference": task.reference, **changes}
    return Task.create("miniworld", "synthesized", [f"{REWORDED} {task.task_id}"], fields["world"], fields["reference"])


def bare(task: Task) -> dict[str, Any]:
    return {key: task.world[key] for key in ("seed", "variant") if task.world[key] != "plain"}


SOLUTIONS: dict[str, Callable[[Task], Task]] = {
    "as it is": resolved,
    "no intent": lambda task: resolved(task, world=bare(task)),
    "more in the world": lambda task: resolved(task, world={**bare(task), "note": 1}),
    "more lookups": lambda task: resolved(
        task, world=bare(task), reference=[[ToolCall("find_item", {"name": "x"}), *task.reference[0]]]
    ),
    "more changes": lambda task: resolved(task, world=bare(task), reference=[[*CALLS[:1], *task.reference[0]]]),
}


@pytest.mark.parametrize("how", SOLUTIONS)
def test_solution_of_a_panel_is_recognized_in_any_spelling(how: str) -> None:
    tasks = [SOLUTIONS[how](task) for name in WORLD.panels for task in PANELS[name][::32]]
    found = judged(*tasks)
    outcomes = [outcome(one) for one in found]
    assert "accepted" not in outcomes
    # the others are refused by the environment for reasons of their own, such as a tool that `shifted` does not have
    assert outcomes.count("panel_overlap") >= 0.7 * len(outcomes), outcomes
    assert set(outcomes) <= {"panel_overlap", *ENVIRONMENT_GATES}


def test_another_task_in_the_same_world_is_no_overlap() -> None:
    """Only the panel's own task in a world is taken."""
    tasks = [
        Task.create(
            "miniworld", "synthesized", [f"put yoga number {n} on monday"], {"seed": task.world["seed"]}, [CALLS]
        )
        for n, task in enumerate(PANELS["validation"][:20])
        if task.world["variant"] == "plain"
    ]
    assert tasks and {outcome(one) for one in judged(*tasks)} <= {"accepted", "near_duplicate"}


def test_ablation_compares_instructions_and_normalized_solutions() -> None:
    """The ablation of verification never runs the environment."""
    task = resolved(LONG)
    lines = [
        json.dumps(asdict(one)) for one in (task, worded(f"{AROUND} {LONG.turns[0]}"), worded("quite another thing"))
    ]
    found = [one for one, _ in verify("miniworld", lines, Library([], PANELS, 0.9), enabled=False)]
    assert [outcome(one) for one in found] == ["panel_overlap", "panel_overlap", "accepted"]

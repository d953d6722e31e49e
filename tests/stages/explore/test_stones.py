"""Stepping stones: the reference of a task that always fails, replayed, becomes tasks of its single effects."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from coevolve.core.records import Exploration, Signal
from coevolve.core.yaml_files import load
from coevolve.environments.registry import make
from coevolve.knowledge import learn
from coevolve.stages.explore.explorer import record
from coevolve.stages.explore.requests import Request, requests
from coevolve.stages.explore.stones import REFERENCE, Stones
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests import ROOT

WORLD = make("miniworld")
TASKS = [task for task in WORLD.tasks("broad") if "+" in task.family][:6]
CONFIG = load(ROOT / "params.yaml").explore.model_copy(update={"explorations": 24})


class Elsewhere:
    """An explorer that says that it was asked."""

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        for request in wanted:
            yield record(request, "elsewhere", [])


def wanted() -> list[Request]:
    """Requests around three unsolved tasks, and around one at the boundary."""
    signals = [
        Signal(f"s{number}", "unsolved" if number < 3 else "boundary", 0, task.task_id, None, 1.0, {}, [])
        for number, task in enumerate(TASKS[:4])
    ]
    return requests(WORLD, TASKS, [], signals, CONFIG, 0, 0)


def explored() -> list[Exploration]:
    return list(Stones(WORLD, learn(WORLD, TASKS), Elsewhere()).explore(wanted()))


def test_each_unsolved_task_is_replayed_once_and_all_else_is_the_others() -> None:
    found = explored()
    assert [one.exploration_id for one in found] == [one.exploration_id for one in wanted()]
    stones = [one for one in found if one.explorer == REFERENCE]
    assert sorted(str(one.task_id) for one in stones) == sorted(task.task_id for task in TASKS[:3])
    assert {one.explorer for one in found if one not in stones} == {"elsewhere"}
    for one in stones:
        task = next(task for task in TASKS if task.task_id == one.task_id)
        assert one.world == task.world and one.kind == "unsolved" and one.signal_ids
        assert [(call.name, call.arguments) for call in one.calls] == [
            (call.name, call.arguments) for call in task.calls[:-1]
        ], "all but the end"


def test_their_effects_become_smaller_tasks_that_the_environment_accepts() -> None:
    synthesizer = ScriptedSynthesizer(WORLD, TASKS, 0)
    stones = [one for one in explored() if one.explorer == REFERENCE]
    candidates = [one for group in synthesizer.abstract(stones) for one in group]
    synthesizer.close()
    lines = [json.dumps(asdict(one)) for one in candidates]
    accepted = [
        task for verdict, task in verify("miniworld", lines, Library(TASKS, {}, 0.9)) if verdict.accepted and task
    ]
    assert len(accepted) >= 3
    parents = {task.task_id: task for task in TASKS}
    for task in accepted:
        assert task.provenance and task.provenance.parent_task_id in parents
        parent = parents[task.provenance.parent_task_id]
        assert len(task.calls) <= len(parent.calls) and set(task.tools) <= set(parent.tools)

"""Of more candidates than are wanted, those from which the agent learns most: over-generate and select.

It needs no generator that is trained, and works for any guidance: what claims to steer difficulty must beat it.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coevolve.core.learnability import SHAPES, Record
from coevolve.core.records import Gate, Verdict
from coevolve.core.task import Task
from coevolve.stages.verify.config import Select
from coevolve.stages.verify.judge import Judged

GATE = "selected"


def select(judged: Sequence[Judged], config: Select, samples: int) -> list[Judged]:
    """``judged`` with a last gate on what was accepted: ``config.keep`` tasks pass it, those of the highest shape of the chance
    to solve them, as ``samples`` episodes tell it. A share ``config.variety`` is taken family by family, the best of each.
    """
    accepted = [(verdict, task) for verdict, task in judged if verdict.accepted and task is not None]
    worth = {task.task_id: _worth(verdict, config, samples) for verdict, task in accepted}
    kept = _kept([task for _, task in accepted], worth, config)
    return [
        (_gated(verdict, worth[task.task_id], task.task_id in kept), task)
        if verdict.accepted and task is not None
        else (verdict, task)
        for verdict, task in judged
    ]


def _worth(verdict: Verdict, config: Select, samples: int) -> float:
    """0 where nothing was measured: the environment failed in every episode."""
    if verdict.pass_rate is None:
        return 0.0
    return SHAPES[config.shape](Record(verdict.pass_rate * samples, samples).chance)


def _kept(tasks: Sequence[Task], worth: Mapping[str, float], config: Select) -> set[str]:
    ranked = sorted(tasks, key=lambda task: -worth[task.task_id])  # of equals, what came first
    kept: dict[str, None] = {}
    families: dict[str, deque[str]] = defaultdict(deque)
    for task in ranked:
        families[task.family].append(task.task_id)
    waiting = deque(families.values())
    while waiting and len(kept) < round(config.keep * config.variety):
        family = waiting.popleft()
        kept[family.popleft()] = None
        if family:
            waiting.append(family)
    for task in ranked:
        if len(kept) >= config.keep:
            break
        kept[task.task_id] = None
    return set(kept)


def _gated(verdict: Verdict, worth: float, kept: bool) -> Verdict:
    rate = "unknown" if verdict.pass_rate is None else f"{verdict.pass_rate:.2f}"
    gate = Gate(GATE, kept, "" if kept else f"pass rate {rate}: others are worth more than {worth:.2f}")
    return replace(verdict, accepted=kept, gates=[*verdict.gates, gate])

"""Over-generate and select: keep the accepted tasks that teach the agent most.

Selection needs no trained task generator and works with any guidance. It is the baseline for methods that steer
difficulty.
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
UNMEASURED = "enough tasks are kept, family by family; no policy measured pass rates"


def select(judged: Sequence[Judged], config: Select, samples: int) -> list[Judged]:
    """Add a last gate to the accepted tasks: the ``config.keep`` most instructive tasks pass it.

    ``config.shape`` of the chance of success, estimated from ``samples`` episodes, ranks the tasks. The share
    ``config.variety`` is chosen family by family, the best of each first. Without samples all tasks are worth the same.
    """
    accepted = [(verdict, task) for verdict, task in judged if verdict.accepted and task is not None]
    worth = {task.task_id: _worth(verdict, config, samples) for verdict, task in accepted}
    kept = _kept([task for _, task in accepted], worth, config)
    return [
        (_gated(verdict, worth[task.task_id], task.task_id in kept, samples > 0), task)
        if verdict.accepted and task is not None
        else (verdict, task)
        for verdict, task in judged
    ]


def _worth(verdict: Verdict, config: Select, samples: int) -> float:
    """The shape of the chance of success; 0 if the environment failed in every episode."""
    if verdict.pass_rate is None:
        return 0.0
    return SHAPES[config.shape](Record(verdict.pass_rate * samples, samples).chance)


def _kept(tasks: Sequence[Task], worth: Mapping[str, float], config: Select) -> set[str]:
    ranked = sorted(tasks, key=lambda task: -worth[task.task_id])  # stable: earlier tasks first
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


def _gated(verdict: Verdict, worth: float, kept: bool, measured: bool) -> Verdict:
    rate = "unknown" if verdict.pass_rate is None else f"{verdict.pass_rate:.2f}"
    reason = f"pass rate {rate}: others are worth more than {worth:.2f}" if measured else UNMEASURED
    gate = Gate(GATE, kept, "" if kept else reason)
    return replace(verdict, accepted=kept, gates=[*verdict.gates, gate])

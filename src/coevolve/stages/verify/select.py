"""Over-generate and select: keep the accepted tasks that teach the agent most.

Selection needs no trained task generator and works with any guidance. It is the baseline for methods that steer
difficulty.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coevolve.core.learnability import SHAPES, Record
from coevolve.core.mixtures import apportioned
from coevolve.core.records import Gate, Verdict
from coevolve.core.task import Task
from coevolve.stages.verify.config import Select
from coevolve.stages.verify.judge import Judged
from coevolve.stages.verify.pass_counts import PassCount

GATE = "selected"
UNMEASURED = "enough tasks are kept, family by family; no policy measured pass rates"


def select(
    judged: Sequence[Judged], config: Select, counts: Mapping[str, PassCount], shares: Mapping[str, float]
) -> list[Judged]:
    """Add a last gate to the accepted tasks: the ``config.keep`` most instructive tasks pass it.

    ``config.shape`` of the chance of success, estimated from the episodes in ``counts``, ranks the tasks of an
    environment. Each environment keeps its share of the tasks; the others fill the room that it leaves. Within an
    environment, the share ``config.variety`` is chosen family by family, the best of each first. Without counts all
    tasks are worth the same.
    """
    accepted = [task for verdict, task in judged if verdict.accepted and task is not None]
    worth = {task.task_id: _worth(counts.get(task.task_id), config) for task in accepted}
    by_environment: dict[str, list[Task]] = defaultdict(list)
    for task in accepted:
        by_environment[task.environment].append(task)
    rooms = _rooms({name: len(tasks) for name, tasks in by_environment.items()}, shares, config.keep)
    kept = {
        task_id
        for name, tasks in by_environment.items()
        for task_id in _kept(tasks, worth, rooms[name], config.variety)
    }
    return [
        (_gated(verdict, worth[task.task_id], task.task_id in kept, bool(counts)), task)
        if verdict.accepted and task is not None
        else (verdict, task)
        for verdict, task in judged
    ]


def _worth(count: PassCount | None, config: Select) -> float:
    """The shape of the chance of success; 0 if the environment failed in every episode."""
    if count is None or count.rate is None:
        return 0.0
    successes = count.rate * count.episodes  # its rounding orders tasks of equal worth, so it must not change
    return SHAPES[config.shape](Record(successes, count.episodes).chance)


def _rooms(sizes: Mapping[str, int], shares: Mapping[str, float], keep: int) -> dict[str, int]:
    """The number of tasks that each environment keeps. ``sizes`` are the numbers of its accepted tasks.

    An environment with fewer tasks than its share keeps all. The others divide the rest in proportion to their shares.
    """
    rooms: dict[str, int] = {}
    rest = {name: share for name, share in shares.items() if name in sizes}
    while rest:
        divided = apportioned(rest, keep - sum(rooms.values()))
        full = [name for name in rest if sizes[name] <= divided[name]]
        if not full:
            return rooms | divided
        for name in full:
            rooms[name] = sizes[name]
            del rest[name]
    return rooms


def _kept(tasks: Sequence[Task], worth: Mapping[str, float], room: int, variety: float) -> set[str]:
    """The ids of the ``room`` tasks of one environment that are kept."""
    ranked = sorted(tasks, key=lambda task: -worth[task.task_id])  # stable: earlier tasks first
    kept: dict[str, None] = {}
    families: dict[str, deque[str]] = defaultdict(deque)
    for task in ranked:
        families[task.family].append(task.task_id)
    waiting = deque(families.values())
    while waiting and len(kept) < round(room * variety):
        family = waiting.popleft()
        kept[family.popleft()] = None
        if family:
            waiting.append(family)
    for task in ranked:
        if len(kept) >= room:
            break
        kept[task.task_id] = None
    return set(kept)


def _gated(verdict: Verdict, worth: float, kept: bool, measured: bool) -> Verdict:
    rate = "unknown" if verdict.pass_rate is None else f"{verdict.pass_rate:.2f}"
    reason = f"pass rate {rate}: others are worth more than {worth:.2f}" if measured else UNMEASURED
    gate = Gate(GATE, kept, "" if kept else reason)
    return replace(verdict, accepted=kept, gates=[*verdict.gates, gate])

"""Which tasks to train on next.

A curriculum is one line of ``CURRICULA``. It puts all tasks in an order for one step, of which the first are played and the
others replace groups that teach nothing. It depends on its arguments alone, so that a resumed run draws what an
uninterrupted one does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.difficulty import ENOUGH, SHAPES, Records
from coevolve.core.params import Mixture, Train
from coevolve.core.seeding import generator
from coevolve.core.task import Task

FLOOR = 0.1  # weight of a task from which nothing is learned as it seems: agents change, and every task is seen again
AGAIN = 0.1  # share of a step's tasks that get more episodes


@dataclass(frozen=True, slots=True)
class Step:
    """One training step, for which tasks are chosen."""

    seed: int
    iteration: int
    number: int
    count: int


def stream(tasks: Sequence[Task], records: Records, config: Train, step: Step) -> list[Task]:
    """All ``tasks``: the ``step.count`` to play first, then those to replace groups that teach nothing, each once."""
    ordered = CURRICULA[config.curriculum](tasks, records, config, step)
    return ordered if config.mixture is None else mixed(ordered, config.mixture, step)


def even(tasks: Sequence[Task], records: Records, config: Train, step: Step) -> list[Task]:
    """Steps walk through one random order after another: every task is visited once before any is visited again."""
    chosen: list[Task] = []
    position = step.number * step.count
    while len(chosen) < min(step.count, len(tasks)):
        epoch, index = divmod(position, len(tasks))
        order = list(range(len(tasks)))
        generator("curriculum", step.seed, step.iteration, epoch).shuffle(order)
        task = tasks[order[index]]
        if task not in chosen:
            chosen.append(task)
        position += 1
    names = {task.task_id for task in chosen}
    others = [task for task in tasks if task.task_id not in names]
    generator("curriculum refill", step.seed, step.iteration, step.number).shuffle(others)
    return [*chosen, *others]


def learnable(tasks: Sequence[Task], records: Records, config: Train, step: Step) -> list[Task]:
    """What was never visited first; then P(task) ∝ ``FLOOR`` + shape of the chance to solve it, without replacement.

    By exponential keys (Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
    """
    shape = SHAPES[config.shape]
    rng = generator("curriculum learnable", step.seed, step.iteration, step.number)

    def key(task: Task) -> tuple[bool, float]:
        wait = -math.log(1.0 - rng.random())
        record = records.get(task.task_id)
        return (False, wait) if record is None else (True, wait / (FLOOR + shape(record.chance)))

    return sorted(tasks, key=key)


CURRICULA = {"even": even, "learnable": learnable}


def unsolved(first: Sequence[Task], records: Records, groups: int) -> list[Task]:
    """Those of a step's ``first`` tasks that are played in ``groups`` groups instead of one: never solved in ``ENOUGH`` episodes,
    at most a share ``AGAIN`` of them. At a chance of 0.05, 32 episodes hold a success four times in five, 8 one time in three.
    """
    return [task for task in hopeless(first, records)[: int(len(first) * AGAIN)] for _ in range(groups - 1)]


def hopeless(tasks: Sequence[Task], records: Records) -> list[Task]:
    """Those of ``tasks`` that were never solved in ``ENOUGH`` episodes or more."""
    return [
        task for task in tasks if (one := records.get(task.task_id)) and not one.successes and one.attempts >= ENOUGH
    ]


def mixed(ordered: Sequence[Task], mixture: Mixture, step: Step) -> list[Task]:
    """``ordered``, with the shares of ``mixture`` among the first; where a part has too few tasks, others stand in."""
    rooms = _apportioned(dict(mixture), min(step.count, len(ordered)))
    chosen, others = [], []
    for task in ordered:
        part = _part(task, step.iteration)
        if rooms[part]:
            rooms[part] -= 1
            chosen.append(task)
        else:
            others.append(task)
    return [*chosen, *others]


def _part(task: Task, iteration: int) -> str:
    """Whether a task was there from the start, came last, or in between."""
    if task.provenance is None:
        return "seed"
    return "fresh" if task.provenance.iteration == iteration - 1 else "history"


def _apportioned(shares: Mapping[str, float], count: int) -> dict[str, int]:
    """``count`` places in proportion to ``shares``, by largest remainder."""
    total = sum(shares.values())
    exact = {name: share / total * count for name, share in shares.items()}
    rooms = {name: int(one) for name, one in exact.items()}
    for name in sorted(exact, key=lambda name: rooms[name] - exact[name])[: count - sum(rooms.values())]:
        rooms[name] += 1
    return rooms

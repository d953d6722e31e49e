"""Choose the tasks to train on next.

A curriculum is one line of ``CURRICULA``. It orders all tasks for one step: the agent plays the first ones, and the others
replace groups that teach nothing. The order depends on the arguments alone, so a resumed run draws the same tasks as an
uninterrupted run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from coevolve.core.learnability import SHAPES, Records
from coevolve.core.seeding import rng_for
from coevolve.core.task import Task
from coevolve.stages.train.config import Train

FLOOR = 0.1  # least weight of a task: agents change, so every task must come back


@dataclass(frozen=True, slots=True)
class Step:
    """Training step ``number`` of a run in which all steps have ``count`` tasks."""

    seed: int
    iteration: int
    number: int
    count: int


def stream(tasks: Sequence[Task], records: Records, config: Train, step: Step) -> list[Task]:
    """All ``tasks``: the ``step.count`` to play first, then those to replace groups that teach nothing, each once."""
    return CURRICULA[config.curriculum](tasks, records, config, step)


def even(tasks: Sequence[Task], records: Records, config: Train, step: Step) -> list[Task]:
    """Walk through one random order after another: every task comes once before any task comes again."""
    chosen: list[Task] = []
    position = step.number * step.count
    while len(chosen) < min(step.count, len(tasks)):
        epoch, index = divmod(position, len(tasks))
        order = list(range(len(tasks)))
        rng_for("curriculum", step.seed, step.iteration, epoch).shuffle(order)
        task = tasks[order[index]]
        if task not in chosen:
            chosen.append(task)
        position += 1
    names = {task.task_id for task in chosen}
    others = [task for task in tasks if task.task_id not in names]
    rng_for("curriculum refill", step.seed, step.iteration, step.number).shuffle(others)
    return [*chosen, *others]


def learnable(tasks: Sequence[Task], records: Records, config: Train, step: Step) -> list[Task]:
    """Tasks that were never visited first, then draws without replacement: P(task) ∝ ``FLOOR`` + shape of the chance to
    solve it.

    If the environment failed in every episode of a task, its chance is unknown. The task then has the mean weight of the
    others, so that such tasks take their share of the steps and no more.

    The order follows exponential keys (Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
    """
    shape = SHAPES[config.shape]
    rng = rng_for("curriculum learnable", step.seed, step.iteration, step.number)
    known = {task.task_id: records[task.task_id] for task in tasks if task.task_id in records}
    weights = {name: FLOOR + shape(record.chance) for name, record in known.items() if record.attempts}
    mean = math.fsum(weights.values()) / len(weights) if weights else 1.0

    def key(task: Task) -> tuple[bool, float]:
        wait = -math.log(1.0 - rng.random())
        return (True, wait / weights.get(task.task_id, mean)) if task.task_id in known else (False, wait)

    return sorted(tasks, key=key)


CURRICULA = {"even": even, "learnable": learnable}

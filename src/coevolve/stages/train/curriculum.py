"""Which tasks to train on next."""

from collections.abc import Iterator, Sequence

from coevolve.core.seeding import generator
from coevolve.core.task import Task


def stream(tasks: Sequence[Task], count: int, seed: int, iteration: int, step: int) -> Iterator[Task]:
    """The tasks of a training step: ``count`` to play, then others, each once, to replace groups that teach nothing.

    Steps walk through one random order after another, so that visits are even: every task is visited once before any
    is visited again. Depends on its arguments alone, so that a resumed run draws what an uninterrupted one does.
    """
    chosen: list[Task] = []
    position = step * count
    while len(chosen) < min(count, len(tasks)):
        epoch, index = divmod(position, len(tasks))
        order = list(range(len(tasks)))
        generator("curriculum", seed, iteration, epoch).shuffle(order)
        task = tasks[order[index]]
        if task not in chosen:
            chosen.append(task)
        position += 1
    yield from chosen
    names = {task.task_id for task in chosen}
    others = [task for task in tasks if task.task_id not in names]
    generator("curriculum refill", seed, iteration, step).shuffle(others)
    yield from others

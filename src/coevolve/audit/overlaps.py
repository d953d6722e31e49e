"""Find tasks that are in two splits: training tasks must not be test tasks."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from coevolve.audit.finding import Found, Measured
from coevolve.audit.subject import Subject
from coevolve.core.similarity import Index, shingles, similarity
from coevolve.core.task import Task
from coevolve.stages.verify.library import solution_of, text_of

THRESHOLD = 0.9  # similarity from which two instructions are near-duplicates


def known_by_heart(task: Task) -> str:
    """The parts of a task that an agent could memorize to solve it in any world: its words and the calls that solve it."""
    return repr((task.turns, [[call.name, call.arguments] for call in task.calls]))


def same(subject: Subject) -> Found:
    """Check for tasks with the same instruction and reference, or with the same world and reference."""

    return _between(
        subject, lambda one, other: _shared(one, other, lambda task: [solution_of(task), known_by_heart(task)])
    )


def near(subject: Subject) -> Found:
    """Check for instructions with a similarity of at least THRESHOLD, also in different worlds with the same reference."""

    def close(one: Sequence[Task], other: Sequence[Task]) -> list[tuple[Task, Task]]:
        index = Index(THRESHOLD)
        by_id = {task.task_id: task for task in one}
        for task in one:
            index.add(task.task_id, text_of(task))
        found = [(task, index.nearest(text_of(task))) for task in other]
        return [(by_id[nearest[0]], task) for task, nearest in found if nearest is not None]

    return _between(
        subject, close, lambda one, other: f"{similarity(shingles(text_of(one)), shingles(text_of(other))):.2f} like"
    )


def _between(
    subject: Subject,
    pairs: Callable[[Sequence[Task], Sequence[Task]], list[tuple[Task, Task]]],
    how: Callable[[Task, Task], str] = lambda one, other: "the same as",
) -> Found:
    measured: Measured = {}
    bad = []
    for (one, tasks), (other, others) in combinations(subject.splits.items(), 2):
        found = pairs(tasks, others)
        measured[f"{one} and {other}"] = len(found)
        bad += [f"{other} {second.task_id} is {how(first, second)} {one} {first.task_id}" for first, second in found]
    return Found(not bad if measured else None, measured, bad)


def _shared(
    tasks: Sequence[Task], others: Sequence[Task], keys: Callable[[Task], list[str]]
) -> list[tuple[Task, Task]]:
    known: Mapping[str, Task] = {key: task for task in tasks for key in keys(task)}
    found = [(task, next((known[key] for key in keys(task) if key in known), None)) for task in others]
    return [(first, task) for task, first in found if first is not None]

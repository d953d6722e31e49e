"""Find tasks and kinds of tasks that are in two splits: training tasks must not be test tasks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from coevolve.audit.finding import Found, Measured
from coevolve.audit.subject import Subject
from coevolve.core.hashing import content_hash
from coevolve.core.similarity import Index, shingles, similarity
from coevolve.core.task import Task
from coevolve.stages.verify.library import solution_of, text_of

THRESHOLD = 0.9  # similarity from which two instructions are near-duplicates
NEW = 0.5  # least share of tasks with a new template in a panel that measures new templates


def known_by_heart(task: Task) -> str:
    """The parts of a task that an agent could memorize to solve it in any world: its words and the calls that solve it."""
    return repr((task.turns, [[call.name, call.arguments] for call in task.calls]))


def same(subject: Subject) -> Found:
    """Are all tasks of different splits different?

    The same are tasks with equal references and equal instructions, or equal references and equal worlds.
    """

    return _between(
        subject, lambda one, other: _shared(one, other, lambda task: [solution_of(task), known_by_heart(task)])
    )


def near(subject: Subject) -> Found:
    """Do instructions of different splits differ clearly?

    They do below a similarity of THRESHOLD, or in another world with another reference: the agent must look it up.
    """

    def close(one: Sequence[Task], other: Sequence[Task]) -> list[tuple[Task, Task]]:
        indexes: dict[str, Index] = defaultdict(lambda: Index(THRESHOLD))
        by_id = {task.task_id: task for task in one}
        for task in one:
            for key in _memorized(task):
                indexes[key].add(task.task_id, text_of(task))
        found = {
            task.task_id: (by_id[nearest[0]], task)
            for task in other
            for key in _memorized(task)
            if key in indexes and (nearest := indexes[key].nearest(text_of(task)))
        }
        return list(found.values())

    return _between(
        subject, close, lambda one, other: f"{similarity(shingles(text_of(one)), shingles(text_of(other))):.2f} like"
    )


def _memorized(task: Task) -> tuple[str, str]:
    """The world of a task and its reference. An agent that memorized either knows other tasks with the same words."""
    return content_hash(task.world), repr([[call.name, call.arguments] for call in task.calls])


def template(task: Task) -> str:
    """The template of a task: its family, and the tools of its reference in order, turn by turn."""
    return f"{task.family}: {', then '.join(' '.join(call.name for call in turn) for turn in task.reference)}"


def templates(subject: Subject) -> Found:
    """Does some panel ask for kinds of tasks that training lacks?

    Measures for each panel the share of tasks whose template the training split has. Some panel must have new templates.

    A panel of known templates asks for new values in them, which is a fair question. But if no panel asks another question, an
    agent that has memorized the templates looks like an agent that has learned the tools. Two panels may share templates,
    because neither is for training. If all tasks have one template, there is nothing to hold out.
    """
    kinds = {split: Counter(map(template, tasks)) for split, tasks in subject.splits.items()}
    seed = kinds.pop("seed")
    panels = {split: counts for split, counts in kinds.items() if counts}
    known = {split: sum(counts[kind] for kind in counts if kind in seed) for split, counts in panels.items()}
    shares = {split: known[split] / counts.total() for split, counts in panels.items()}
    measured: Measured = {"templates of seed": len(seed), **{f"known in {split}": one for split, one in shares.items()}}
    if not panels or len(set(seed).union(*panels.values())) < 2:
        return Found(None, measured)
    if min(shares.values()) <= 1.0 - NEW:
        return Found(True, measured)
    return Found(False, measured, [_repeats(split, counts, known[split], seed) for split, counts in panels.items()])


def _repeats(split: str, counts: Counter[str], known: int, seed: Mapping[str, int]) -> str:
    """A line about the tasks of ``split`` with a template of ``seed``, and the most frequent one."""
    most, tasks = next((kind, tasks) for kind, tasks in counts.most_common() if kind in seed)
    return f"{split}: {known} of {counts.total()} tasks have a template of seed, {tasks} of them “{most}” ({seed[most]} in seed)"


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

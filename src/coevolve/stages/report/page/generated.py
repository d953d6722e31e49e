"""What the report page shows of a generator of tasks, as plain values: whether it hits its target, and what it writes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from coevolve.core.attempts import read_attempts
from coevolve.core.io import read_jsonl, read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Attempt, Generation
from coevolve.core.statistics import estimate
from coevolve.core.task import Task
from coevolve.core.trajectories import read_trajectories
from coevolve.stages.generate.rewards import distance
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.generate.spec_outcomes import ACCEPTED

TRAINED, UNTRAINED = "this iteration's", "of before any training"
EXAMPLES = 3  # specs of an iteration to read
TOOLS = 24  # tools that are listed, at most

Row = dict[str, Any]


def written(last: int, alpha: float) -> dict[str, Any] | None:
    """All that the page says of it, or None if nothing was generated."""
    made = {t: _of(t) for t in range(last)}
    if not any(made.values()):
        return None
    tasks = {task.task_id: task for t in range(last) for task in _tasks(t)}
    attempts = read_attempts(Paths.attempts(last))
    return {
        "alpha": alpha,
        "distances": [row for t, found in made.items() for row in distances(t, found, alpha)],
        "outcomes": [row for t, found in made.items() for row in outcomes(t, found)],
        "goals": goals(made),
        "lengths": [row for t, found in made.items() for row in lengths(t, found, tasks, _tokens(t + 1, last))],
        "realized": realized([one for found in made.values() for one in found], attempts),
        "examples": [row for t, found in made.items() for row in examples(t, found, tasks, alpha)],
    }


def explored(last: int) -> set[str]:
    """Ids of the explorations that tried what a generator wrote."""
    return {exploration_of(one) for t in range(last) for one in _of(t)}


def _of(t: int) -> list[Generation]:
    """What was written in iteration ``t``, with what the probe made of it: before anybody trained on it."""
    file = Paths.generations(t + 1)
    return [one for one in read_jsonl(file, Generation) if one.iteration == t] if file.exists() else []


def _tasks(t: int) -> list[Task]:
    """Accepted tasks of iteration ``t``."""
    return read_tasks(Paths.verified(t) / "accepted.jsonl")


def _tokens(t: int, last: int) -> dict[str, list[int]]:
    """By task: the tokens that the agent generated in each episode of iteration ``t``."""
    found: dict[str, list[int]] = {}
    for one in read_trajectories(Paths.trajectories(t)) if t < last else []:
        found.setdefault(one.task_id, []).append(sum(one.tokens))
    return found


def distances(t: int, generations: Sequence[Generation], alpha: float) -> list[Row]:
    """|p - α| of each generator's tasks of iteration ``t``, as the mean and its interval; of at least two tasks."""
    rows = []
    for name, control in ((TRAINED, False), (UNTRAINED, True)):
        ours = [one for one in generations if one.control == control and one.episodes]
        if len(ours) > 1:
            found = estimate([distance(one, alpha) for one in ours])
            low, high = found.mean - found.half, found.mean + found.half
            rows.append({"policy": t, "generator": name, "success": found.mean, "low": low, "high": high})
    return rows


def outcomes(t: int, generations: Sequence[Generation]) -> list[Row]:
    """How many specs of iteration ``t`` became tasks, and why the others did not; the accepted first."""
    counts = Counter(one.outcome for one in generations if not one.control)
    names = sorted(counts, key=lambda name: (name != ACCEPTED, -counts[name], name))
    return [{"t": t, "outcome": name, "count": counts[name]} for name in names]


def goals(made: Mapping[int, Sequence[Generation]]) -> list[Row]:
    """Of each iteration's specs: the share that names a tool as a goal."""
    specs = {t: [one.goals for one in found if one.goals is not None and not one.control] for t, found in made.items()}
    counts = {t: Counter(goal for one in found for goal in one) for t, found in specs.items()}
    total = sum(counts.values(), Counter[str]())
    return [
        {"dataset": t, "tool": name, "tasks": counts[t][name], "share": counts[t][name] / max(len(specs[t]), 1)}
        for t in made
        for name, _ in sorted(total.items(), key=lambda one: (-one[1], one[0]))[:TOOLS]
    ]


def lengths(
    t: int, generations: Sequence[Generation], tasks: Mapping[str, Task], tokens: Mapping[str, Sequence[int]]
) -> list[Row]:
    """How long the tasks of iteration ``t`` are, in three ways: calls of the reference, words of the instruction, and the agent's
    ``tokens`` in an episode of training, by task. Success alone may be had by asking for less.
    """
    ours = [tasks[one.task_id] for one in generations if one.task_id and one.task_id in tasks and not one.control]
    spent = [count for task in ours for count in tokens.get(task.task_id, ())]
    measured = {
        "calls of the reference": [len(task.calls) for task in ours],
        "words of the instruction": [len(" ".join(task.turns).split()) for task in ours],
        "tokens of the agent in training": spent,
    }
    return [{"iteration": t, "figure": name, "value": fmean(values)} for name, values in measured.items() if values]


def realized(generations: Sequence[Generation], attempts: Sequence[Attempt]) -> list[Row]:
    """Solved share in the probe against that on the first of ``attempts``, which are in order: how many tasks have both."""
    first: dict[str, Attempt] = {}
    for one in attempts:
        first.setdefault(one.task_id, one)
    both = Counter(
        (one.successes / one.episodes, visit.successes / visit.size)
        for one in generations
        if one.task_id and one.episodes and not one.control and (visit := first.get(one.task_id))
    )
    return [{"probe": probe, "training": training, "tasks": many} for (probe, training), many in sorted(both.items())]


def examples(t: int, generations: Sequence[Generation], tasks: Mapping[str, Task], alpha: float) -> list[Row]:
    """The specs of iteration ``t`` whose tasks lie closest to α."""
    ours = [one for one in generations if one.task_id in tasks and one.episodes and not one.control]
    ours.sort(key=lambda one: (distance(one, alpha), one.generation_id))
    return [
        {
            "t": t,
            "spec": one.text,
            "instruction": " / ".join(tasks[one.task_id or ""].turns),
            "task_id": one.task_id,
            "solved": f"{one.successes} of {one.episodes}",
        }
        for one in ours[:EXAMPLES]
    ]

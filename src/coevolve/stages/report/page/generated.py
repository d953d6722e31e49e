"""Values of the report page about the task generator: whether it hits its target, and its specs."""

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

EXAMPLES = 3  # example specs per iteration
TOOLS = 24  # most tools to list

Row = dict[str, Any]


def written(last: int, alpha: float) -> dict[str, Any] | None:
    """The page's values about the task generator; None without specs."""
    generations = {t: _of(t) for t in range(last)}
    if not any(generations.values()):
        return None
    accepted = [task for t in range(last) for task in read_tasks(Paths.verified(t) / "accepted.jsonl")]
    tasks = {task.task_id: task for task in accepted}
    attempts = read_attempts(Paths.attempts(last))
    return {
        "alpha": alpha,
        "distances": [row for t, batch in generations.items() for row in distances(t, batch, alpha)],
        "outcomes": [row for t, batch in generations.items() for row in outcomes(t, batch)],
        "goals": goals(generations),
        "lengths": [row for t, batch in generations.items() for row in lengths(t, batch, tasks, _tokens(t + 1, last))],
        "realized": realized([spec for batch in generations.values() for spec in batch], attempts),
        "examples": [row for t, batch in generations.items() for row in examples(t, batch, tasks, alpha)],
    }


def explored(last: int) -> set[str]:
    """Ids of the explorations of the task generator's specs."""
    return {exploration_of(spec) for t in range(last) for spec in _of(t)}


def _of(t: int) -> list[Generation]:
    """The specs of iteration ``t`` with their outcomes, before any training on their tasks."""
    file = Paths.generations(t + 1)
    return [spec for spec in read_jsonl(file, Generation) if spec.iteration == t] if file.exists() else []


def _tokens(t: int, last: int) -> dict[str, list[int]]:
    """For each task, the tokens that the agent generated in each episode of iteration ``t``."""
    by_task: dict[str, list[int]] = {}
    for trajectory in read_trajectories(Paths.trajectories(t)) if t < last else []:
        by_task.setdefault(trajectory.task_id, []).append(sum(trajectory.tokens))
    return by_task


def distances(t: int, generations: Sequence[Generation], alpha: float) -> list[Row]:
    """|p - α| of the tasks of iteration ``t``: the mean and its interval, for at least two tasks."""
    played = [spec for spec in generations if spec.episodes]
    if len(played) < 2:
        return []
    gap = estimate([distance(spec, alpha) for spec in played])
    low, high = gap.mean - gap.half, gap.mean + gap.half
    return [{"policy": t, "generator": "this iteration's generator", "success": gap.mean, "low": low, "high": high}]


def outcomes(t: int, generations: Sequence[Generation]) -> list[Row]:
    """The numbers of specs of iteration ``t`` by outcome, accepted first."""
    counts = Counter(spec.outcome for spec in generations)
    names = sorted(counts, key=lambda name: (name != ACCEPTED, -counts[name], name))
    return [{"t": t, "outcome": name, "count": counts[name]} for name in names]


def goals(generations: Mapping[int, Sequence[Generation]]) -> list[Row]:
    """The share of each iteration's specs that names a tool as a goal."""
    named = {t: [spec.goals for spec in batch if spec.goals is not None] for t, batch in generations.items()}
    counts = {t: Counter(goal for spec_goals in batch for goal in spec_goals) for t, batch in named.items()}
    total = sum(counts.values(), Counter[str]())
    return [
        {"dataset": t, "tool": name, "tasks": counts[t][name], "share": counts[t][name] / max(len(named[t]), 1)}
        for t in generations
        for name, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))[:TOOLS]
    ]


def lengths(
    t: int, generations: Sequence[Generation], tasks: Mapping[str, Task], tokens: Mapping[str, Sequence[int]]
) -> list[Row]:
    """Three lengths of the tasks of iteration ``t``: calls of the reference, words, and the agent's tokens per episode.

    ``tokens`` holds the agent's tokens in training, by task. The lengths show whether success grows only because tasks
    shrink.
    """
    accepted = [tasks[spec.task_id] for spec in generations if spec.task_id and spec.task_id in tasks]
    spent = [count for task in accepted for count in tokens.get(task.task_id, ())]
    measured = {
        "calls of the reference": [len(task.calls) for task in accepted],
        "words of the instruction": [len(" ".join(task.turns).split()) for task in accepted],
        "tokens of the agent in training": spent,
    }
    return [{"iteration": t, "figure": name, "value": fmean(values)} for name, values in measured.items() if values]


def realized(generations: Sequence[Generation], attempts: Sequence[Attempt]) -> list[Row]:
    """The number of tasks for each pair of solved shares: in the probe, and on the first of ``attempts`` in training."""
    first: dict[str, Attempt] = {}
    for attempt in attempts:
        first.setdefault(attempt.task_id, attempt)
    both = Counter(
        (spec.successes / spec.episodes, visit.successes / visit.size)
        for spec in generations
        if spec.task_id and spec.episodes and (visit := first.get(spec.task_id))
    )
    return [{"probe": probe, "training": training, "tasks": count} for (probe, training), count in sorted(both.items())]


def examples(t: int, generations: Sequence[Generation], tasks: Mapping[str, Task], alpha: float) -> list[Row]:
    """The specs of iteration ``t`` whose tasks lie closest to α."""
    played = [spec for spec in generations if spec.task_id in tasks and spec.episodes]
    played.sort(key=lambda spec: (distance(spec, alpha), spec.generation_id))
    return [
        {
            "t": t,
            "spec": spec.text,
            "instruction": " / ".join(tasks[spec.task_id or ""].turns),
            "task_id": spec.task_id,
            "solved": f"{spec.successes} of {spec.episodes}",
        }
        for spec in played[:EXAMPLES]
    ]

"""Values of the report page about the task generator: whether it hits its target, and its specs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.io import read_jsonl, read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Generation
from coevolve.core.statistics import estimate
from coevolve.core.task import Task
from coevolve.stages.generate.rewards import distance
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.generate.spec_outcomes import ACCEPTED

EXAMPLES = 3  # example specs per iteration

Row = dict[str, Any]


def written(last: int, alpha: float) -> dict[str, Any] | None:
    """The page's values about the task generator; None without specs."""
    generations = {t: _of(t) for t in range(last)}
    if not any(generations.values()):
        return None
    accepted = [task for t in range(last) for task in read_tasks(Paths.verified(t) / "accepted.jsonl")]
    tasks = {task.task_id: task for task in accepted}
    return {
        "alpha": alpha,
        "distances": [row for t, batch in generations.items() for row in distances(t, batch, alpha)],
        "outcomes": [row for t, batch in generations.items() for row in outcomes(t, batch)],
        "examples": [row for t, batch in generations.items() for row in examples(t, batch, tasks, alpha)],
    }


def explored(last: int) -> set[str]:
    """Ids of the explorations of the task generator's specs."""
    return {exploration_of(spec) for t in range(last) for spec in _of(t)}


def _of(t: int) -> list[Generation]:
    """The specs of iteration ``t`` with their outcomes, before any training on their tasks."""
    file = Paths.generations(t + 1)
    return [spec for spec in read_jsonl(file, Generation) if spec.iteration == t] if file.exists() else []


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

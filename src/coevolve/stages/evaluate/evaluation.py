"""Evaluation: a policy plays every frozen panel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.outcomes import Outcome, PanelMetrics
from coevolve.core.progress import bar
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_summary import StageSummary
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.environments.mixture import shares_of
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Episode, Limits, RolloutRequest, in_batches, rollout, scored
from coevolve.stages.evaluate.config import Evaluate


def played(config: Evaluate, panels: Sequence[str], environment: str) -> list[str]:
    """The ``panels`` of an ``environment`` that are played, in its order."""
    wanted = panels if config.panels is None else config.panels
    if unknown := [name for name in wanted if name not in panels]:
        raise CoevolveError(
            f"evaluate.panels: {environment} has no {', '.join(unknown)}; expected some of: {', '.join(panels)}"
        )
    return [name for name in panels if name in wanted]


def evaluate(
    policy: Policy | Replicas,
    environment: Environment,
    panels: Mapping[str, Sequence[Task]],
    limits: Limits,
    config: Evaluate,
    seed: int,
    kept: Path | None = None,
) -> list[Outcome]:
    """Play the first ``config.tasks`` of every panel, each ``config.samples`` times in a row; episodes that failed without the agent's doing
    are left out.

    Batches that have been played are written to the folder ``kept``; those that are there already are not played again.
    """
    with TemporaryDirectory() as nowhere:
        play = partial(_panel, policy, environment, limits, config, seed, kept or Path(nowhere))
        return [one for name, tasks in panels.items() for one in play(name, tasks[: config.tasks])]


def by_environment(
    outcomes: Sequence[Outcome], environment: Environment, panels: Mapping[str, Sequence[Task]]
) -> list[Outcome]:
    """Of a mixture, the same outcomes once more, in panels of one environment each: ``validation.sql``; none of any other."""
    names = list(shares_of(environment))
    if len(names) == 1:
        return []
    owner = {task.task_id: task.environment for tasks in panels.values() for task in tasks}
    return [
        replace(one, panel=f"{panel}.{name}")
        for panel in panels
        for name in names
        for one in outcomes
        if one.panel == panel and owner[one.task_id] == name
    ]


def _panel(
    policy: Policy | Replicas,
    environment: Environment,
    limits: Limits,
    config: Evaluate,
    seed: int,
    folder: Path,
    name: str,
    tasks: Sequence[Task],
) -> list[Outcome]:
    # the same numbers for every policy, so that two evaluations differ by the policies alone
    requests = [
        RolloutRequest(
            task, derive_seed(seed, "evaluate", name, task.task_id, *([sample] if sample else [])), sample=sample
        )
        for task in tasks
        for sample in range(config.samples)
    ]
    categories = {task.task_id: environment.category(task) for task in tasks}
    batches = in_batches(requests, environment, limits)
    files = [folder / f"{name}-{number}.jsonl" for number in range(len(batches))]
    left = [number for number, file in enumerate(files) if not file.exists()]

    def write(number: int, episodes: Sequence[Episode]) -> None:
        found = (one.trajectory for one in scored(episodes))
        write_jsonl(files[left[number]], (_outcome(name, one, categories[one.task_id]) for one in found))

    with bar(len(requests), f"evaluate {name}", "episodes" if config.samples > 1 else "tasks") as progress:
        again = [one for number in left for one in batches[number]]
        progress.update(len(requests) - len(again))
        rollout(policy, environment, again, limits, progress=progress.update, done=write)
    return [one for file in files for one in read_jsonl(file, Outcome)]


def _outcome(panel: str, one: Trajectory, category: str) -> Outcome:
    return Outcome(
        panel=panel,
        task_id=one.task_id,
        category=category,
        score=one.score,
        success=is_success(one.score),
        stop_reason=str(one.stop_reason),
        turns=len(one.tokens),
        tokens=sum(one.tokens),
        checks=one.checks,
    )


def summary(t: int, panels: Mapping[str, PanelMetrics], wanted: int) -> StageSummary:
    """Of the evaluation of policies/t: what it took. What came of it is in metrics.json, by panel.

    Fewer episodes than ``wanted`` are a note.
    """
    figures = {
        "evaluation episodes": sum(one.episodes for one in panels.values()),
        "evaluation tokens": round(sum(one.tokens * one.episodes for one in panels.values())),
    }
    lost = wanted - figures["evaluation episodes"]
    notes = [f"{lost} of {wanted} evaluation episodes are left out: the environment failed in them"] if lost else []
    return StageSummary("evaluate", t, figures, costs=list(figures), notes=notes)

"""Evaluation: a policy plays every frozen panel."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.outcomes import Outcome, PanelMetrics
from coevolve.core.progress import bar
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_summary import StageSummary, timeouts
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
    """The ``panels`` of ``environment`` to play, in the environment's order."""
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
    """Play the first ``config.tasks`` of every panel, each ``config.samples`` times in a row.

    Episodes that the environment broke are left out. The folder ``kept`` stores each finished batch, and batches that it
    already holds are not played again.
    """
    with TemporaryDirectory() as nowhere:
        play = partial(_panel, policy, environment, limits, config, seed, kept or Path(nowhere))
        return [outcome for name, tasks in panels.items() for outcome in play(name, tasks[: config.tasks])]


def by_environment(
    outcomes: Sequence[Outcome], environment: Environment, panels: Mapping[str, Sequence[Task]]
) -> list[Outcome]:
    """The outcomes of a mixture in panels per environment, such as ``validation.sql``; empty for other environments."""
    names = list(shares_of(environment))
    if len(names) == 1:
        return []
    owner = {task.task_id: task.environment for tasks in panels.values() for task in tasks}
    return [
        replace(outcome, panel=f"{panel}.{name}")
        for panel in panels
        for name in names
        for outcome in outcomes
        if outcome.panel == panel and owner[outcome.task_id] == name
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
    # the same seeds for every policy, so that two evaluations differ only by their policies
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
        trajectories = (episode.trajectory for episode in scored(episodes))
        outcomes = (_outcome(name, trajectory, categories[trajectory.task_id]) for trajectory in trajectories)
        write_jsonl(files[left[number]], outcomes)

    with bar(len(requests), f"evaluate {name}", "episodes" if config.samples > 1 else "tasks") as progress:
        remaining = [request for number in left for request in batches[number]]
        progress.update(len(requests) - len(remaining))
        rollout(policy, environment, remaining, limits, progress=progress.update, done=write)
    return [outcome for file in files for outcome in read_jsonl(file, Outcome)]


def _outcome(panel: str, trajectory: Trajectory, category: str) -> Outcome:
    return Outcome(
        panel=panel,
        task_id=trajectory.task_id,
        category=category,
        score=trajectory.score,
        success=is_success(trajectory.score),
        stop_reason=str(trajectory.stop_reason),
        turns=len(trajectory.tokens),
        tokens=sum(trajectory.tokens),
        checks=trajectory.checks,
    )


def summary(t: int, panels: Mapping[str, PanelMetrics], wanted: int, stop_reasons: Iterable[str] = ()) -> StageSummary:
    """The costs of evaluating policies/t; metrics.json has the results by panel.

    Fewer episodes than ``wanted`` are a note, and so are timeouts among their ``stop_reasons``.
    """
    figures = {
        "evaluation episodes": sum(metrics.episodes for metrics in panels.values()),
        "evaluation tokens": round(sum(metrics.tokens * metrics.episodes for metrics in panels.values())),
    }
    lost = wanted - figures["evaluation episodes"]
    notes = [f"{lost} of {wanted} evaluation episodes are left out: the environment failed in them"] if lost else []
    return StageSummary("evaluate", t, figures, costs=list(figures), notes=[*notes, *timeouts(stop_reasons)])

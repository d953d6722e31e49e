"""Evaluation: a policy plays every frozen panel."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import interrupted, remedy_for
from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.outcomes import Outcome, PanelMetrics
from coevolve.core.progress import bar
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_summary import StageSummary
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import INTERRUPTED, End, StopReason, Trajectory, read_trajectories, write_trajectories
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Episode, Limits, RolloutRequest, in_batches, rollout
from coevolve.stages.evaluate.config import Evaluate

SHOWN = 200  # characters of an unreadable reply


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
    ends: list[End] | None = None,
    traced: Collection[str] = (),
) -> list[Outcome]:
    """Play the first ``config.tasks`` of every panel, each ``config.samples`` times in a row.

    The result omits episodes in which the environment failed; ``ends`` gets the ends of all episodes. The folder ``kept``
    stores each finished batch, and batches that it already holds are not played again. It also stores the full episodes of
    the ``traced`` tasks, which ``episodes_in`` reads. Raises a CoevolveError if every episode of a panel is interrupted: that
    measures no policy. ``kept`` then forgets the panel, and the next call plays it again.
    """
    with TemporaryDirectory() as nowhere:
        play = partial(_panel, policy, environment, limits, config, seed, kept or Path(nowhere), traced)
        outcomes = [outcome for name, tasks in panels.items() for outcome in play(name, tasks[: config.tasks])]
    if ends is not None:
        ends += _ends(outcomes)
    return [outcome for outcome in outcomes if outcome.stop_reason != StopReason.ENVIRONMENT_FAILED]


def _panel(
    policy: Policy | Replicas,
    environment: Environment,
    limits: Limits,
    config: Evaluate,
    seed: int,
    folder: Path,
    traced: Collection[str],
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
        trajectories = [episode.trajectory for episode in episodes]
        if chosen := [trajectory for trajectory in trajectories if trajectory.task_id in traced]:
            write_trajectories(files[left[number]].with_suffix(".parquet"), chosen)
        outcomes = (_outcome(name, trajectory, categories[trajectory.task_id]) for trajectory in trajectories)
        write_jsonl(files[left[number]], outcomes)

    with bar(len(requests), f"evaluate {name}", "episodes" if config.samples > 1 else "tasks") as progress:
        remaining = [request for number in left for request in batches[number]]
        progress.update(len(requests) - len(remaining))
        rollout(policy, environment, remaining, limits, progress=progress.update, done=write)
    outcomes = [outcome for file in files for outcome in read_jsonl(file, Outcome)]
    if outcomes and all(outcome.stop_reason in INTERRUPTED for outcome in outcomes):
        for file in files:
            file.unlink()
            file.with_suffix(".parquet").unlink(missing_ok=True)
        notes = interrupted(_ends(outcomes))
        if not remedy_for(outcomes[0].cause):
            notes.append(f"repair the environment {environment.name} or the model's server, and run the command again")
        raise CoevolveError(f"{name}, first task {outcomes[0].task_id}: {'; '.join(notes)}")
    return outcomes


def episodes_in(kept: Path) -> list[Trajectory]:
    """The full episodes that ``evaluate`` left in the folder ``kept``, without those in which the environment failed."""
    files = sorted(kept.glob("*.parquet"))
    return [trajectory for file in files for trajectory in read_trajectories(file) if trajectory.counts]


def _ends(outcomes: Iterable[Outcome]) -> list[End]:
    return [(outcome.stop_reason, outcome.cause) for outcome in outcomes]


def _outcome(panel: str, trajectory: Trajectory, category: str) -> Outcome:
    unread = trajectory.unread
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
        unread=len(unread),
        unread_reply="".join(unread[:1])[:SHOWN],
        cause=trajectory.end[1],
    )


def summary(t: int, panels: Mapping[str, PanelMetrics], notes: Sequence[str] = ()) -> StageSummary:
    """The costs of evaluating policies/t; metrics.json has the results by panel. ``notes`` are about its episodes."""
    figures = {
        "evaluation episodes": sum(metrics.episodes for metrics in panels.values()),
        "evaluation tokens": round(sum(metrics.tokens * metrics.episodes for metrics in panels.values())),
    }
    return StageSummary("evaluate", t, figures, costs=list(figures), notes=[*notes])

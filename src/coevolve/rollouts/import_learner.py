"""Learner import: another trainer's rollouts are the agent's trajectories, and no policy is trained.

It writes data/t/trajectories.parquet, whose ids are the addresses of the rollouts, and data/t/skipped.jsonl.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar

from coevolve.core.io import read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.section import LearnerConfig, NotNegative, one_of
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.trajectories import Trajectory, stream_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.row_environment import RowEnvironment
from coevolve.rollouts.foreign_trajectories import RolloutAccount, trajectories
from coevolve.rollouts.match_tasks import TaskMatch
from coevolve.rollouts.rollout_formats import AUTO, FORMATS, lacking, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options
from coevolve.rollouts.row_tasks import RowMatch
from coevolve.stages.train.config import Train


class Import(LearnerConfig):
    """Rollouts that another trainer recorded."""

    trains: ClassVar[bool] = False

    format: Annotated[str, one_of(lambda: (AUTO, *FORMATS))] = AUTO
    """Format of the files; auto knows each by its content."""
    reward: str | None = None
    """The reward to take as the score, if a rollout has several."""
    threshold: NotNegative | None = None
    """Least reward of a success; null takes scores as they are, of which 0.5 is a success."""


def imported(config: Train, section: Import, environment: Environment, t: int) -> None:
    """Write the trajectories of iteration ``t``: the rollouts of known tasks. All others are counted and named."""
    tasks = read_tasks(Paths.tasks(t), environment.name, least=1)
    files = rollout_files(config.rollouts, section.format)
    account = RolloutAccount()
    match = RowMatch(environment, tasks) if isinstance(environment, RowEnvironment) else TaskMatch(tasks)
    with bar(sum(file.stat().st_size for file in files), "read", "bytes") as progress:
        options = Options(section.reward, progress=progress.update)
        rows = read_rollouts(files, options, section.format)
        found = trajectories(rows, match, account, environment.tools())
        found = account.some(found, str(files[0]), options.remarks)
        stream_trajectories(Paths.trajectories(t), _scored(found, section.threshold))
    write_jsonl(Paths.data(t) / "train_metrics.jsonl", [])
    write_jsonl(Paths.data(t) / "skipped.jsonl", account.skipped)
    notes = [*lacking(options), *account.lines(options.remarks)]
    if unknown := sorted(account.tools - {tool["function"]["name"] for tool in environment.tools()}):
        # a trainer may add a prefix to the names of tools
        notes.append(
            f"tools of the rollouts that {environment.name} does not have: {len(unknown)} ({', '.join(unknown[:5])})"
        )
    write_summary(StageSummary("train", t, {"rollouts": account.kept}, notes=notes))
    names = ", ".join(sorted({file.name for file in files})[:3])
    print(f"{account.kept} rollouts of {len(account.tasks)} tasks in {names}{', …' if len(files) > 3 else ''}")
    print(*notes, sep="\n")


def _scored(found: Iterator[Trajectory], threshold: float | None) -> Iterator[Trajectory]:
    if threshold is None:
        return found
    return (replace(one, score=float(one.score >= threshold)) if one.counts else one for one in found)

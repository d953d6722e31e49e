"""The files of a finished run as records: `coevolve.read_run` in Python."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from coevolve.core.io import parse, read_json, read_jsonl, read_tasks
from coevolve.core.outcomes import OUTCOMES, Outcome
from coevolve.core.paths import Paths
from coevolve.core.records import Signal, Verdict
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.stages.report.run_summary import SUMMARY, Summary

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run. Lists are by iteration: policy t plays evaluation t, learns from dataset t, and shows signals t.

    ``policies`` are model directories. A run of three iterations has four datasets, policies and evaluations.
    """

    folder: Path
    summary: Summary
    policies: list[Path]
    datasets: list[list[Task]]
    evaluations: list[list[Outcome]]
    signals: list[list[Signal]]
    verdicts: list[list[Verdict]]

    def trajectories(self, t: int) -> list[Trajectory]:
        """The episodes of training in iteration ``t``. They are large, so nothing else reads them."""
        return read_trajectories(self.folder / Paths.trajectories(t))


def read_run(path: str | Path) -> FinishedRun:
    """Read the run in the project folder ``path``. A file that is missing or damaged is a CoevolveError that names it."""
    folder = Path(path)
    file = folder / SUMMARY
    summary = parse(Summary, read_json(file), str(file))

    def each(count: int, read: Callable[[int], Record]) -> list[Record]:
        return [read(t) for t in range(count)]

    last = summary.last
    return FinishedRun(
        folder=folder,
        summary=summary,
        policies=each(last + 1, lambda t: folder / Paths.policy(t)),
        datasets=each(last + 1, lambda t: read_tasks(folder / Paths.tasks(t))),
        evaluations=each(last + 1, lambda t: read_jsonl(folder / Paths.evaluation(t) / OUTCOMES, Outcome)),
        signals=each(last, lambda t: read_jsonl(folder / Paths.signals(t), Signal)),
        verdicts=each(last, lambda t: read_jsonl(folder / Paths.verified(t) / "verdicts.jsonl", Verdict)),
    )

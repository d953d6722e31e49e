"""Write the files of report/."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.io import read_jsonl, read_tasks, write_json, write_text
from coevolve.core.paths import Paths
from coevolve.core.records import Signal
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.stages.report.page.panels import draw
from coevolve.stages.report.page.render import render
from coevolve.stages.report.page.view import compared, gather, groups, strength
from coevolve.stages.report.run_summary import METRICS, SUMMARY, Summary
from coevolve.stages.report.tables import curves, headline, table


def write(summary: Summary, count: int, alpha: float) -> tuple[list[Path], list[tuple[Trajectory, list[str]]]]:
    """Write the report. Returns the paths of its files for people, and the ``count`` weakest trajectories of each iteration.

    Each trajectory comes with the kinds of signals that it set off, the strongest first. The page shows ``count`` groups
    per iteration. ``alpha`` is the target success of the task generator.
    """
    reader: list[dict[str, Any]] = []
    weak: list[tuple[Trajectory, list[str]]] = []
    for t in range(summary.last):
        trajectories = read_trajectories(Paths.trajectories(t))
        signals = read_jsonl(Paths.signals(t), Signal) if Paths.signals(t).exists() else []
        tasks, order = read_tasks(Paths.tasks(t)), strength(summary)
        reader += groups(trajectories, tasks, signals, order, count, compared(t))
        fired = {(name, signal.kind) for signal in signals for name in signal.trajectory_ids}
        weak += [
            (trajectory, [kind for kind in order if (trajectory.trajectory_id, kind) in fired])
            for trajectory in weakest(trajectories, count)
        ]
    view = {**gather(summary, alpha), "groups": reader}
    charts = draw(view)
    write_json(SUMMARY, asdict(summary))
    write_json(METRICS, headline(summary))
    for panel, text in curves(summary).items():
        write_text(Paths.report / "curves" / f"{panel}.csv", text)
    files = {
        "table.txt": table(summary) + "\n",
        "index.html": render(view, charts),
        **{f"{name}.svg": chart for name, chart in charts.items()},
    }
    for name, text in files.items():
        write_text(Paths.report / name, text)
    return [SUMMARY, *(Paths.report / name for name in files)], weak


def weakest(trajectories: Sequence[Trajectory], count: int) -> list[Trajectory]:
    """The ``count`` trajectories of lowest score, from different tasks first."""
    ordered = sorted(trajectories, key=lambda trajectory: (trajectory.score, trajectory.trajectory_id))
    seen: Counter[str] = Counter()
    visits = []
    for trajectory in ordered:
        seen[trajectory.task_id] += 1
        visits.append((seen[trajectory.task_id], trajectory))
    return [trajectory for _, trajectory in sorted(visits, key=lambda pair: (pair[0], pair[1].score))][:count]

"""Write the files of report/."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from coevolve.core.charts import COLORS
from coevolve.core.io import read_jsonl, read_tasks, write_json, write_text
from coevolve.core.paths import Paths
from coevolve.core.records import Signal
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.stages.report.page.html_page import PAGE, html_page
from coevolve.stages.report.page.panels import LEFT, draw
from coevolve.stages.report.page.view import compared, gather, groups, strength
from coevolve.stages.report.run_summary import METRICS, SUMMARY, Summary
from coevolve.stages.report.tables import curves, headline, number, table
from coevolve.stages.validate.config import LOW_IS_BAD, MEANING


@dataclass(frozen=True, slots=True)
class Weak:
    """A weak trajectory, with the kinds of signals that it set off, the strongest first, and the new tasks that grew from them."""

    trajectory: Trajectory
    kinds: list[str]
    tasks: list[str]


def write(summary: Summary, count: int, alpha: float) -> tuple[list[Path], list[Weak]]:
    """Write the report. Returns the paths of its files for people, and the ``count`` weakest trajectories of each iteration.

    The page shows ``count`` groups per iteration. ``alpha`` is the target success of the task generator.
    """
    reader: list[dict[str, Any]] = []
    weak: list[Weak] = []
    for t in range(summary.last):
        trajectories = read_trajectories(Paths.trajectories(t))
        signals = read_jsonl(Paths.signals(t), Signal) if Paths.signals(t).exists() else []
        tasks, order = read_tasks(Paths.tasks(t)), strength(summary)
        reader += groups(trajectories, tasks, signals, order, count, compared(t))
        fired = {(name, signal.kind) for signal in signals for name in signal.trajectory_ids}
        grown = _grown(read_tasks(Paths.tasks(t + 1)), signals)
        for trajectory in weakest(trajectories, count, grown):
            name = trajectory.trajectory_id
            weak.append(Weak(trajectory, [kind for kind in order if (name, kind) in fired], grown.get(name, [])))
    view = {**gather(summary, alpha), "groups": reader}
    charts = draw(view)
    write_json(SUMMARY, asdict(summary))
    write_json(METRICS, headline(summary))
    for panel, text in curves(summary).items():
        write_text(Paths.report / "curves" / f"{panel}.csv", text)
    texts = {
        "table.txt": table(summary) + "\n",
        "index.html": render(view, charts),
        **{f"{name}.svg": chart for name, chart in charts.items()},
    }
    for name, text in texts.items():
        write_text(Paths.report / name, text)
    return [SUMMARY, *(Paths.report / name for name in texts)], weak


def render(view: Mapping[str, Any], charts: Mapping[str, str]) -> str:
    """The page for the values of ``gather`` and the charts of ``draw``. It is readable without JavaScript."""
    return html_page(
        PAGE,
        "page.html.j2",
        **view,
        charts=charts,
        faults=[row for row in view["outcomes"] if row["gate"] not in LEFT],
        number=number,
        colors=COLORS,
        meaning=MEANING,
        low_is_bad=LOW_IS_BAD,
        script=(files(PAGE) / "page.js").read_text(encoding="utf-8"),
    )


def _grown(tasks: Iterable[Task], signals: Iterable[Signal]) -> dict[str, list[str]]:
    """The ids of ``tasks`` that grew from ``signals``, by the trajectories behind the signals."""
    behind = {signal.signal_id: signal.trajectory_ids for signal in signals}
    grown: dict[str, list[str]] = {}
    for task in tasks:
        fired = task.provenance.signal_ids if task.provenance else []
        for name in sorted({name for signal in fired for name in behind.get(signal, [])}):
            grown.setdefault(name, []).append(task.task_id)
    return grown


def origins(weak: Iterable[Weak]) -> dict[str, str]:
    """For each task, the id of a failed trajectory: the one it was grown from, or else one at the task itself."""
    failed = [entry for entry in weak if entry.trajectory.counts and not is_success(entry.trajectory.score)]
    own = {entry.trajectory.task_id: entry.trajectory.trajectory_id for entry in reversed(failed)}
    grown = {task: entry.trajectory.trajectory_id for entry in reversed(failed) for task in entry.tasks}
    return {**own, **grown}


def weakest(trajectories: Sequence[Trajectory], count: int, grown: Mapping[str, Sequence[str]]) -> list[Trajectory]:
    """The ``count`` trajectories of lowest score among those that count, from different tasks first.

    At equal scores, trajectories from which more new tasks have ``grown`` are first.
    """

    def weakness(trajectory: Trajectory) -> tuple[float, int]:
        return trajectory.score, -len(grown.get(trajectory.trajectory_id, ()))

    counted = [trajectory for trajectory in trajectories if trajectory.counts]
    ordered = sorted(counted, key=lambda trajectory: (*weakness(trajectory), trajectory.trajectory_id))
    seen: Counter[str] = Counter()
    visits = []
    for trajectory in ordered:
        seen[trajectory.task_id] += 1
        visits.append((seen[trajectory.task_id], trajectory))
    return [trajectory for _, trajectory in sorted(visits, key=lambda pair: (pair[0], *weakness(pair[1])))][:count]

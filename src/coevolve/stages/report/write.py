"""Write the files of report/.

Altair's charts in Vega-Lite are drawn to SVG, so that viewing them needs neither scripts nor a network.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.io import read_jsonl_objects, read_tasks, write_json, write_text
from coevolve.core.paths import Paths
from coevolve.core.records import Generation, Signal
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.stages.report.page.reader import (
    PAGE,
    added,
    alternating,
    compared,
    groups,
    html_page,
    read_existing,
    strength,
)
from coevolve.stages.report.run_summary import METRICS, SUMMARY, Summary
from coevolve.stages.report.tables import curves, headline, table, training

COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]  # Okabe and Ito
WIDTH = 560
PADDING = {"left": 5, "top": 5, "bottom": 5, "right": 60}  # a reader's font may be wider than the font that measures


@dataclass(frozen=True, slots=True)
class Weak:
    """A weak trajectory, the kinds of signals that it set off, the strongest first, and the new tasks that grew from them."""

    trajectory: Trajectory
    kinds: list[str]
    tasks: list[str]


def weak(summary: Summary, count: int) -> list[Weak]:
    """The ``count`` weakest trajectories of each iteration."""
    found = []
    for t in range(summary.last):
        signals = read_existing(Paths.signals(t), Signal)
        fired = {(name, signal.kind) for signal in signals for name in signal.trajectory_ids}
        grown = _grown(read_tasks(Paths.tasks(t + 1)), signals)
        for trajectory in weakest(read_trajectories(Paths.trajectories(t)), count, grown):
            name = trajectory.trajectory_id
            kinds = [kind for kind in strength(summary) if (name, kind) in fired]
            found.append(Weak(trajectory, kinds, grown.get(name, [])))
    return found


def write(summary: Summary, count: int) -> None:
    """Write the report. The page shows ``count`` groups per iteration."""
    reader: list[dict[str, Any]] = []
    new_tasks: list[dict[str, Any]] = []
    order = strength(summary)
    for t in range(summary.last):
        trajectories, signals = read_trajectories(Paths.trajectories(t)), read_existing(Paths.signals(t), Signal)
        tasks, following = read_tasks(Paths.tasks(t)), read_tasks(Paths.tasks(t + 1))
        reader += groups(trajectories, tasks, signals, order, count, compared(t))
        links = {
            one["episode"].trajectory_id: f"g{n}" for n, group in enumerate(reader, 1) for one in group["attempts"]
        }
        new_tasks.append(added(tasks, following, signals, read_existing(Paths.specs(t), Generation), links))
    write_json(SUMMARY, asdict(summary))
    write_json(METRICS, headline(summary))
    for panel, text in curves(summary).items():
        write_text(Paths.report / "curves" / f"{panel}.csv", text)
    if summary.panels:
        steps = [read_jsonl_objects(Paths.data(t) / "train_metrics.jsonl") for t in range(summary.last)]
        write_text(Paths.report / "training.csv", training([row for _, row in rows] for rows in steps))
        write_text(Paths.report / "vega.js", library())
    curve = draw(summary) if summary.panels else ""
    texts = {
        "table.txt": table(summary) + "\n",
        "index.html": render(summary, curve, reader, new_tasks),
        **({"curve.svg": curve} if curve else {}),
    }
    for name, text in texts.items():
        write_text(Paths.report / name, text)


def draw(summary: Summary) -> str:
    """The curve of success as SVG."""
    rows = [
        {"policy": t, "panel": name, "success": metrics.success, "low": metrics.low, "high": metrics.high}
        for t, panels in enumerate(summary.policies)
        for name, metrics in panels.items()
    ]
    return svg(success_chart(rows, "success", "panel", (0.0, 1.0), x_title="iteration"))


def render(summary: Summary, curve: str, reader: Sequence[Any], new_tasks: Sequence[Any]) -> str:
    """The page with the SVG ``curve``, ``groups`` to read, and what each iteration ``added``. It needs no JavaScript."""
    return html_page(
        "page.html.j2",
        summary=summary,
        curve=curve,
        groups=reader,
        new_tasks=new_tasks,
        kinds=strength(summary),
        colors=COLORS,
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
    counted = [trajectory for trajectory in trajectories if trajectory.counts]
    ordered = sorted(counted, key=lambda one: (one.score, -len(grown.get(one.trajectory_id, ())), one.trajectory_id))
    return alternating(ordered, lambda one: one.task_id)[:count]


def svg(chart: Any) -> str:
    """An Altair chart as SVG. The same chart gives the same text."""
    import vl_convert

    themed = chart.configure(font="system-ui, sans-serif", background="transparent", padding=PADDING).configure_view(
        stroke=None
    )
    themed = themed.configure_axis(grid=False, labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
    themed = themed.configure_legend(labelFontSize=12, titleFontSize=12, labelLimit=0)
    spec = themed.to_dict()
    # Vega numbers gradients and clips per process; on a page with several charts they need unique names
    names: dict[str, str] = {}
    prefix = content_hash(spec, 8)
    return re.sub(
        r'(?<=id=")\w+(?=")|(?<=url\(#)\w+(?=\))',
        lambda match: names.setdefault(match[0], f"{prefix}-{len(names)}"),
        vl_convert.vegalite_to_svg(spec),
    )


def library() -> str:
    """The JavaScript that draws charts in a browser: Vega-Embed, with Vega and Vega-Lite."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed")


def success_chart(
    rows: Sequence[Mapping[str, Any]],
    title: str,
    series: str,
    domain: tuple[float, float] | None = None,
    x_title: str = "policy, after that many iterations",
) -> Any:
    """``success`` with the band ``low`` to ``high`` over ``policy``, one line for each value of ``series``, in their order.

    ``title`` names the vertical axis, ``x_title`` the horizontal axis.
    """
    import altair as alt

    names = list(dict.fromkeys(row[series] for row in rows))
    base = alt.Chart(alt.Data(values=[dict(row) for row in rows])).encode(
        x=alt.X("policy:O", title=x_title, axis=alt.Axis(labelAngle=0)),
        color=alt.Color(
            f"{series}:N",
            sort=names,
            scale=alt.Scale(domain=names, range=COLORS),
            title=series,
            legend=alt.Legend(symbolOpacity=1, orient="top"),
        ),
    )
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale(zero=False)
    band = base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=50)).encode(y="success:Q")
    return alt.layer(band, line).properties(width=WIDTH, height=300)

"""The charts of the report page."""

from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.charts import COLORS, WIDTH, curves, data, svg
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.verify.select import GATE


def draw(view: Mapping[str, Any]) -> dict[str, str]:
    """SVG by name."""
    summary = view["summary"]
    charts = {
        "curve": _curve(summary),
        "origins": _origins(view["origins"]),
        "funnel": _funnel(view["outcomes"]),
    }
    if view["generator"]:
        charts |= _generator(view["generator"])
    return {name: svg(chart) for name, chart in charts.items() if chart is not None}


def _curve(summary: Summary) -> Any:
    rows = [
        {"policy": t, "panel": name, "success": metrics.success, "low": metrics.low, "high": metrics.high}
        for t, panels in enumerate(summary.policies)
        for name, metrics in panels.items()
    ]
    return curves(rows, "success", "panel", (0.0, 1.0), x_title="iteration")


def _origins(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    names = list(dict.fromkeys(row["origin"] for row in sorted(rows, key=lambda row: row["order"])))
    x, y = alt.X("tasks:Q", title="tasks"), alt.Y("dataset:O", title="dataset")
    return _bars(rows, x, y, "origin", names, ["#bbbbbb", *COLORS]).encode(order=alt.Order("order:Q"))


def _bars(
    rows: Sequence[Mapping[str, Any]], x: Any, y: Any, kind: str, names: Sequence[str], colors: Sequence[str]
) -> Any:
    """Stacked bars with a color for each of ``names``, the values of column ``kind``."""
    import altair as alt

    color = alt.Color(f"{kind}:N", sort=names, scale=alt.Scale(domain=names, range=colors))
    chart = alt.Chart(data(rows)).mark_bar().encode(x=x, y=y, color=color)
    return chart.properties(width=WIDTH, height=alt.Step(34))


def _generator(plots: Mapping[str, Any]) -> dict[str, Any]:
    """The charts about the task generator, by name."""
    far = "distance of the pass rate to alpha"
    return {
        "distances": curves(plots["distances"], far, "generator", x_title="iteration") if plots["distances"] else None,
        "specs": _outcomes(plots["outcomes"], "specs"),
    }


# Colors of the outcomes of candidates without a fault, and their names by the gate that left them out
SOUND = {"accepted": "#009E73", "not selected": "#A6DCCB"}
LEFT = {None: "accepted", GATE: "not selected"}


def _funnel(outcomes: Sequence[Mapping[str, Any]]) -> Any:
    rows = [
        {
            "t": outcome["t"],
            "outcome": LEFT.get(outcome["gate"], f"rejected: {outcome['gate']}"),
            "count": outcome["candidates"],
        }
        for outcome in outcomes
    ]
    return _outcomes(rows, "candidates")


def _outcomes(rows: Sequence[Mapping[str, Any]], of: str) -> Any:
    """The numbers of outcomes by iteration. Accepted is first and green."""
    import altair as alt

    if not any(row["count"] for row in rows):
        return None
    present = dict.fromkeys(row["outcome"] for row in rows)
    names = [*(name for name in SOUND if name in present), *(name for name in present if name not in SOUND)]
    colors = [*(SOUND[name] for name in names if name in SOUND), *COLORS[::-1]]
    return _bars(rows, alt.X("count:Q", title=of), alt.Y("t:O", title="iteration"), "outcome", names, colors)

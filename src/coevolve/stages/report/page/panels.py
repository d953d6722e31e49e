"""The charts of the report page."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.charts import BOLD, COLORS, GREY, WIDTH, curves, data, svg
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.verify.select import GATE


def draw(view: Mapping[str, Any]) -> dict[str, str]:
    """SVG by name."""
    summary = view["summary"]
    charts = {
        "curve": _curve(summary),
        "origins": _origins(view["origins"]),
        "tools": _tools(view["tools"], "dataset", "tasks"),
        "signals": _signals(view["journey"]),
        "funnel": _funnel(view["outcomes"]),
        "watch": _watch(view["watch"]),
    }
    if view["generator"]:
        charts |= _generator(view["generator"])
    for stage in view["stages"]:
        for title, rows in stage["plots"].items():
            charts[chart_name(stage["stage"], title)] = _plot(rows)
    return {name: svg(chart) for name, chart in charts.items() if chart is not None}


def chart_name(stage: str, title: str) -> str:
    """The name of a stage's plot, for its file and on the page."""
    return re.sub(r"[^a-z0-9]+", "-", f"{stage} {title}".lower())


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
    rows: Sequence[Mapping[str, Any]],
    x: Any,
    y: Any,
    kind: str,
    names: Sequence[str],
    colors: Sequence[str],
    step: int = 34,
) -> Any:
    """Stacked bars with a color for each of ``names``, the values of column ``kind``."""
    import altair as alt

    color = alt.Color(f"{kind}:N", sort=names, scale=alt.Scale(domain=names, range=colors))
    chart = alt.Chart(data(rows)).mark_bar().encode(x=x, y=y, color=color)
    return chart.properties(width=WIDTH, height=alt.Step(step))


def _generator(plots: Mapping[str, Any]) -> dict[str, Any]:
    """The charts about the task generator, by name."""
    far = "distance of the pass rate to alpha"
    return {
        "distances": curves(plots["distances"], far, "generator", x_title="iteration") if plots["distances"] else None,
        "specs": _outcomes(plots["outcomes"], "specs"),
        "goals": _tools(plots["goals"], "iteration", "specs") if plots["goals"] else None,
        "lengths": _lengths(plots["lengths"]),
        "realized": _realized(plots["realized"]),
    }


def _lengths(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Small multiples, because the units differ."""
    import altair as alt

    if not rows:
        return None
    names = list(dict.fromkeys(row["figure"] for row in rows))
    line = (
        alt.Chart(data(rows))
        .mark_line(point=alt.OverlayMarkDef(size=50, color=COLORS[0]), color=COLORS[0])
        .encode(x=alt.X("iteration:O", axis=alt.Axis(labelAngle=0)), y=alt.Y("value:Q", title=None))
        .properties(width=160, height=110)
    )
    return line.facet(facet=alt.Facet("figure:N", sort=names, header=alt.Header(**BOLD)), columns=3).resolve_scale(
        y="independent"
    )


def _realized(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A circle for each pair of shares, sized by its number of tasks. The line marks equal shares."""
    import altair as alt

    if not rows:
        return None
    scale = alt.Scale(domain=[0, 1])
    sizes = sorted({1, max(row["tasks"] for row in rows)})
    equal = alt.Chart(data([{"x": 0, "y": 0}, {"x": 1, "y": 1}])).mark_line(color=GREY, strokeDash=[4, 3])
    dots = (
        alt.Chart(data(rows))
        .mark_circle(color=COLORS[0], opacity=0.6)
        .encode(
            x=alt.X("probe:Q", title="solved in the probe", scale=scale),
            y=alt.Y("training:Q", title="solved on the first visit in training", scale=scale),
            size=alt.Size("tasks:Q", scale=alt.Scale(range=[20, 400]), legend=alt.Legend(values=sizes)),
        )
    )
    return alt.layer(equal.encode(x="x:Q", y="y:Q"), dots).properties(width=260, height=260)


def _tools(rows: Sequence[Mapping[str, Any]], column: str, of: str) -> Any:
    """A heat map of tools by ``dataset``, titled ``column``: the share and the number of the tasks or specs ``of``."""
    import altair as alt

    names = list(dict.fromkeys(row["tool"] for row in rows))
    dark = max((row["share"] for row in rows), default=0.0) / 2
    base = alt.Chart(data(rows)).encode(
        x=alt.X("dataset:O", title=column, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("tool:N", sort=names, title=None),
    )
    boxes = base.mark_rect().encode(color=alt.Color("share:Q", title=f"share of {of}", scale=alt.Scale(scheme="blues")))
    text = base.mark_text(fontSize=11).encode(
        text="tasks:Q", color=alt.condition(f"datum.share > {dark}", alt.value("white"), alt.value("#333"))
    )
    return alt.layer(boxes, text).properties(width=alt.Step(70), height=alt.Step(20))


def _signals(journeys: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    stages = ["signals", "explorations", "candidates", "accepted"]
    rows = [
        {"iteration": journey["t"], "kind": row["kind"], "stage": stage, "count": row[stage]}
        for journey in journeys
        for row in journey["rows"]
        for stage in stages
    ]
    if not rows:
        return None
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    x, y = alt.X("count:Q", title=None, axis=alt.Axis(tickCount=8)), alt.Y("stage:N", sort=stages, title=None)
    return _bars(rows, x, y, "kind", kinds, COLORS, 22).facet(row=alt.Row("iteration:O", title="iteration"))


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


def _watch(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    measured = [row for row in rows if row["value"] is not None]
    if not measured:
        return None
    names = list(dict.fromkeys(row["name"] for row in measured))

    def panel(name: str) -> Any:
        indicator_rows = [row for row in measured if row["name"] == name]
        base = alt.Chart(data(indicator_rows))
        x = alt.X("t:O", title="iteration", axis=alt.Axis(labelAngle=0))
        line = base.mark_line(point=True, color=COLORS[0]).encode(
            x=x, y=alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(values=[0, 0.5, 1]))
        )
        limit = base.mark_rule(color="#E69F00", strokeDash=[4, 3]).encode(y="limit:Q")
        layers = [limit, line]
        if indicator_rows[0]["critical"] is not None:
            layers.append(base.mark_rule(color="#c0392b").encode(y="critical:Q"))
        return alt.layer(*layers).properties(width=150, height=90, title=alt.TitleParams(name, fontSize=12))

    return alt.concat(*map(panel, names), columns=4)


def _plot(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The figures of a stage over the iterations."""
    import altair as alt

    if not rows:
        return None
    names = list(dict.fromkeys(row["figure"] for row in rows))
    return (
        alt.Chart(data(rows))
        .mark_line(point=alt.OverlayMarkDef(size=50))
        .encode(
            x=alt.X("iteration:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("value:Q", title=None),
            color=alt.Color(
                "figure:N",
                sort=names,
                scale=alt.Scale(domain=names, range=COLORS),
                legend=alt.Legend(title=None, orient="top", labelLimit=400, columnPadding=30),
            ),
        )
        .properties(width=WIDTH, height=140)
    )

"""The charts of the report page."""

from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.charts import COLORS, WIDTH, curves, data, svg


def draw(view: Mapping[str, Any]) -> dict[str, str]:
    """SVG by name."""
    summary = view["summary"]
    charts = {
        "curve": _curve(summary),
        "origins": _origins(view["origins"]),
        "tools": _tools(view["tools"]),
        "signals": _signals(view["journey"]),
        "funnel": _funnel(summary, view["rejections"]),
        "watch": _watch(view["watch"]),
        "seconds": _seconds(view["costs"]),
    }
    return {name: svg(chart) for name, chart in charts.items() if chart is not None}


def _curve(summary: Mapping[str, Any]) -> Any:
    rows = [
        {"policy": policy["t"], "panel": name, **{key: one[key] for key in ("success", "low", "high")}}
        for policy in summary["policies"]
        for name, one in policy["panels"].items()
    ]
    return curves(rows, "success", "panel", (0.0, 1.0))


def _origins(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    names = list(dict.fromkeys(row["origin"] for row in sorted(rows, key=lambda row: row["order"])))
    return (
        alt.Chart(data(rows))
        .mark_bar()
        .encode(
            y=alt.Y("dataset:O", title="dataset"),
            x=alt.X("tasks:Q", title="tasks"),
            color=alt.Color(
                "origin:N", title="there because of", scale=alt.Scale(domain=names, range=["#bbbbbb", *COLORS])
            ),
            order=alt.Order("order:Q"),
        )
        .properties(width=WIDTH, height=alt.Step(34))
    )


def _tools(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    names = list(dict.fromkeys(row["tool"] for row in rows))
    base = alt.Chart(data(rows)).encode(
        x=alt.X("dataset:O", axis=alt.Axis(labelAngle=0, orient="top")), y=alt.Y("tool:N", sort=names, title=None)
    )
    boxes = base.mark_rect().encode(color=alt.Color("share:Q", title="share of tasks", scale=alt.Scale(scheme="blues")))
    text = base.mark_text(fontSize=11).encode(
        text="tasks:Q", color=alt.condition("datum.share > 0.25", alt.value("white"), alt.value("#333"))
    )
    return alt.layer(boxes, text).properties(width=alt.Step(70), height=alt.Step(20))


def _signals(journeys: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    stages = ["signals", "explorations", "candidates", "accepted"]
    rows = [
        {"iteration": one["t"], "kind": row["kind"], "stage": stage, "count": row[stage]}
        for one in journeys
        for row in one["rows"]
        for stage in stages
    ]
    if not rows:
        return None
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    bars = (
        alt.Chart(data(rows))
        .mark_bar()
        .encode(
            x=alt.X("count:Q", title=None),
            y=alt.Y("stage:N", sort=stages, title=None),
            color=alt.Color("kind:N", sort=kinds, scale=alt.Scale(domain=kinds, range=COLORS)),
        )
        .properties(width=WIDTH, height=alt.Step(22))
    )
    return bars.facet(row=alt.Row("iteration:O", title="iteration"))


def _funnel(summary: Mapping[str, Any], rejections: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    gates = list(dict.fromkeys(one["gate"] for one in rejections))
    rows = [
        {"iteration": one["t"], "outcome": f"rejected: {one['gate']}", "candidates": one["candidates"]}
        for one in rejections
    ]
    rows += [
        {"iteration": one["t"], "outcome": "accepted", "candidates": one["accepted"]} for one in summary["iterations"]
    ]
    names = ["accepted", *(f"rejected: {gate}" for gate in gates)]
    if not any(row["candidates"] for row in rows):
        return None
    return (
        alt.Chart(data(rows))
        .mark_bar()
        .encode(
            x=alt.X("candidates:Q"),
            y=alt.Y("iteration:O", title="iteration"),
            color=alt.Color("outcome:N", sort=names, scale=alt.Scale(domain=names, range=["#009E73", *COLORS[::-1]])),
        )
        .properties(width=WIDTH, height=alt.Step(34))
    )


def _watch(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    known = [row for row in rows if row["value"] is not None]
    if not known:
        return None
    names = list(dict.fromkeys(row["name"] for row in known))

    def one(name: str) -> Any:
        ours = [row for row in known if row["name"] == name]
        base = alt.Chart(data(ours))
        x = alt.X("t:O", title="iteration", axis=alt.Axis(labelAngle=0))
        line = base.mark_line(point=True, color=COLORS[0]).encode(
            x=x, y=alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(values=[0, 0.5, 1]))
        )
        limit = base.mark_rule(color="#E69F00", strokeDash=[4, 3]).encode(y="limit:Q")
        layers = [limit, line]
        if ours[0]["critical"] is not None:
            layers.append(base.mark_rule(color="#c0392b").encode(y="critical:Q"))
        return alt.layer(*layers).properties(width=150, height=90, title=alt.TitleParams(name, fontSize=12))

    return alt.concat(*map(one, names), columns=3)


def _seconds(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    known = [row for row in rows if row["seconds"] is not None]
    if not known:
        return None
    stages = list(dict.fromkeys(row["stage"] for row in known))
    return (
        alt.Chart(data(known))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q"),
            y=alt.Y("stage:N", sort=stages, title=None),
            color=alt.Color("t:O", title="iteration", scale=alt.Scale(scheme="blues")),
        )
        .properties(width=WIDTH, height=alt.Step(24))
    )

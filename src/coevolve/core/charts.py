"""Charts in Vega-Lite by Altair, drawn to SVG, so that viewing them needs neither scripts nor a network."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.hashing import content_hash

COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]  # Okabe and Ito
GREY = "#BBBBBB"  # for comparisons
BOLD = {"title": None, "labelFontWeight": "bold"}  # headers of small multiples
WIDTH = 560
PADDING = {"left": 5, "top": 5, "bottom": 5, "right": 60}  # a reader's font may be wider than the font that measures


def svg(chart: Any) -> str:
    """An Altair chart as SVG. The same chart gives the same text."""
    import vl_convert

    themed = chart.configure(font="system-ui, sans-serif", background="transparent", padding=PADDING).configure_view(
        stroke=None
    )
    themed = themed.configure_axis(grid=False, labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
    themed = themed.configure_legend(labelFontSize=12, titleFontSize=12, labelLimit=0).configure_header(
        labelFontSize=12
    )
    spec = themed.to_dict()
    # Vega numbers gradients and clips per process; on a page with several charts they need unique names
    names: dict[str, str] = {}
    prefix = content_hash(spec, 8)
    return re.sub(
        r'(?<=id=")\w+(?=")|(?<=url\(#)\w+(?=\))',
        lambda match: names.setdefault(match[0], f"{prefix}-{len(names)}"),
        vl_convert.vegalite_to_svg(spec),
    )


def data(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=[dict(row) for row in rows])


def curves(
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
    base = alt.Chart(data(rows)).encode(
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


def highlighted(rows: Sequence[Mapping[str, Any]], title: str, series: str) -> Any:
    """``success`` with the band ``low`` to ``high`` by policy.

    Small multiples, one for each value of ``series``, with the other values in grey.
    """
    import altair as alt

    names = list(dict.fromkeys(row[series] for row in rows))
    shown = [{**row, "shown": name, "own": row[series] == name} for name in names for row in rows]
    scale = alt.Scale(zero=False)
    base = alt.Chart(width=170, height=130).encode(
        x=alt.X("policy:O", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("success:Q", title=title, scale=scale),
        detail=f"{series}:N",
    )
    focus = base.transform_filter("datum.own")
    others = base.mark_line(color=GREY, strokeWidth=1).transform_filter("!datum.own")
    band = focus.mark_area(opacity=0.15, color=COLORS[0]).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    line = focus.mark_line(color=COLORS[0], point=alt.OverlayMarkDef(size=40, color=COLORS[0]))
    return alt.layer(others, band, line, data=data(shown)).facet(
        facet=alt.Facet("shown:N", sort=names, header=alt.Header(**BOLD)), columns=4
    )


def intervals(rows: Sequence[Mapping[str, Any]], title: str, series: str, panels: Sequence[str]) -> Any:
    """``success`` and its interval ``low`` to ``high``: a row for each value of ``series``, a column for each ``panel``.

    The rule in each column is ``start``, the common starting point.
    """
    import altair as alt

    names = list(dict.fromkeys(row[series] for row in rows))
    base = alt.Chart(width=150, height=22 * len(names)).encode(
        y=alt.Y(f"{series}:N", sort=names, title=None, axis=alt.Axis(minExtent=8 * max(map(len, names))))
    )
    scale = alt.Scale(zero=False)
    start = alt.Chart().mark_rule(color=GREY, strokeDash=[4, 3]).encode(x=alt.X("mean(start):Q", scale=scale))
    bar = base.mark_rule(color=COLORS[0], strokeWidth=2).encode(
        x=alt.X("low:Q", title=title, scale=scale, axis=alt.Axis(tickCount=3, labelOverlap=True, labelSeparation=8)),
        x2="high:Q",
    )
    dot = base.mark_point(filled=True, size=60, opacity=1, color=COLORS[0]).encode(x="success:Q")
    return (
        alt.layer(start, bar, dot, data=data(rows))
        .facet(column=alt.Column("panel:N", sort=list(panels), header=alt.Header(**BOLD)))
        .resolve_scale(x="independent")
    )

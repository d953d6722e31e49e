"""Charts in Vega-Lite by Altair, drawn to SVG, so that viewing them needs neither scripts nor a network."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.hashing import content_hash

COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]  # Okabe and Ito
WIDTH = 560
PADDING = {"left": 5, "top": 5, "bottom": 5, "right": 60}  # a reader's font may be wider than the font that measures


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

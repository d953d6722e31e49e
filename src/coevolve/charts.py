"""Charts: Vega-Lite by Altair, drawn to SVG here, so that who looks at them needs neither scripts nor a network."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.records import content_hash

COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]  # Okabe and Ito's
WIDTH = 560


def svg(chart: Any) -> str:
    """``chart`` of Altair as SVG; the same chart gives the same text."""
    import vl_convert

    themed = chart.configure(font="system-ui, sans-serif", background="transparent").configure_view(stroke=None)
    themed = themed.configure_axis(grid=False, labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
    themed = themed.configure_legend(labelFontSize=12, titleFontSize=12).configure_header(labelFontSize=12)
    spec = themed.to_dict()
    drawn: str = vl_convert.vegalite_to_svg(spec)
    # Vega numbers gradients and clips through the process; on a page with other charts they need names of their own
    names: dict[str, str] = {}
    place = content_hash(spec, 8)
    return re.sub(
        r'(?<=id=")\w+(?=")|(?<=url\(#)\w+(?=\))', lambda one: names.setdefault(one[0], f"{place}-{len(names)}"), drawn
    )


def data(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=[dict(row) for row in rows])


def curves(
    rows: Sequence[Mapping[str, Any]], title: str, series: str, domain: tuple[float, float] | None = None
) -> Any:
    """``success`` with the band ``low`` to ``high`` over ``policy``, a line for each value of ``series``, in their order."""
    import altair as alt

    names = list(dict.fromkeys(row[series] for row in rows))
    base = alt.Chart(data(rows)).encode(
        x=alt.X("policy:O", title="policy, after that many iterations", axis=alt.Axis(labelAngle=0)),
        color=alt.Color(
            f"{series}:N",
            sort=names,
            scale=alt.Scale(domain=names, range=COLORS),
            title=series,
            legend=alt.Legend(symbolOpacity=1),
        ),
    )
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale(zero=False)
    band = base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=50)).encode(y="success:Q")
    return alt.layer(band, line).properties(width=WIDTH, height=300)

"""The report page: a self-contained HTML file that needs no network and is readable without JavaScript."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from coevolve.core.charts import COLORS
from coevolve.stages.report.page.panels import LEFT, chart_name
from coevolve.stages.report.page.verification import by_indicator
from coevolve.stages.report.tables import number
from coevolve.stages.watch.watchdogs import LOW_IS_BAD, MEANING


def render(view: Mapping[str, Any], charts: Mapping[str, str]) -> str:
    """The page for the values of ``gather`` and the charts of ``draw``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("coevolve.stages.report.page", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    here = files("coevolve.stages.report.page")
    return pages.get_template("page.html.j2").render(
        **view,
        charts=charts,
        chart_name=chart_name,
        faults=[row for row in view["outcomes"] if row["gate"] not in LEFT],
        indicators=by_indicator(view["watch"]),
        number=number,
        colors=COLORS,
        meaning=MEANING,
        low_is_bad=LOW_IS_BAD,
        style=(here / "page.css").read_text(encoding="utf-8"),
        script=(here / "page.js").read_text(encoding="utf-8"),
    )

"""A self-contained HTML page that needs no network, in the style of the report."""

from importlib.resources import files
from typing import Any

from coevolve.core.terminal import plain

PAGE = "coevolve.stages.report.page"


def html_page(package: str, template: str, **values: Any) -> str:
    """The page of a ``template`` in the folder of ``package``. All ``values`` are escaped, unless the template says `safe`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(package, "")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.finalize = lambda value: plain(value) if type(value) is str else value  # a model may write control characters
    style = (files(PAGE) / "page.css").read_text(encoding="utf-8")
    return pages.get_template(template).render(**values, style=style)

"""Write an audit as files: audit.json, and a page that needs no network and no script."""

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from coevolve.audit.finding import Audit
from coevolve.core.io import write_json, write_text

JSON, PAGE = "audit.json", "index.html"


def write(audit: Audit, folder: Path) -> list[Path]:
    """Write both files to ``folder``, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / JSON, {**asdict(audit), "worst": audit.worst(), "counts": audit.counts()})
    write_text(folder / PAGE, page(audit))
    return [folder / JSON, folder / PAGE]


def page(audit: Audit) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("coevolve.audit", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    style = (files("coevolve.stages.report.page") / "page.css").read_text(encoding="utf-8")
    return pages.get_template("audit.html.j2").render(audit=audit, style=style, figure=figure)


def figure(value: int | float | str | None) -> str:
    """A value as text for people."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

"""What DVC itself shows of a finished run: its page of plots in a browser without a network, and the champion as an artifact."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo

from coevolve.core.hashing import policy_hash
from coevolve.core.io import read_json
from tests.integration.stages.report.test_page_in_browser import browser
from tests.project import Project

__all__ = ["browser"]


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    yield opened
    opened.close()


def shown(project: Project, tab: Any) -> list[str]:
    """Opens the page of `dvc plots show`. Returns the addresses outside of the project that it asks for."""
    page = Path(project.dvc("plots", "show").stdout.strip().removeprefix("file://"))
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(page.as_uri())
    return [url for url in requests if not url.startswith("file:")]


def test_plots_open_without_a_network(project: Project, tab: Any) -> None:
    assert shown(project, tab) == []
    tab.wait_for_selector("#training_loss svg.marks", state="attached")
    titles = [one.text_content() for one in tab.query_selector_all("svg.marks .role-title-text text")]
    curves = [f"report/curves/{file.name}" for file in sorted((project.folder / "report/curves").iterdir())]
    assert titles == [*curves, "training success", "training score", "training loss"]
    lines = tab.query_selector_all("svg.marks .mark-line path")
    assert all(line.get_attribute("d") for line in lines) and len(lines) >= len(titles)


def test_plots_without_their_library_say_what_is_missing(project: Project, tab: Any) -> None:
    shutil.rmtree(project.folder / "report")
    asked = shown(project, tab)
    project.dvc("checkout", "report")
    assert [url for url in asked if "/vega@" in url], "the network, as DVC's own page"
    assert "run dvc checkout report" in tab.inner_text("body")


def test_champion_is_an_artifact_of_dvc(project: Project) -> None:
    summary = read_json(project.folder / "report/summary.json")
    best = project.folder / f"policies/{summary['champion']['policy']}"
    ((name, artifact),) = Repo(str(project.folder)).artifacts.read()["dvc.yaml"].items()
    assert (name, artifact.type) == ("champion", "model")
    assert policy_hash(project.folder / artifact.path) == policy_hash(best)

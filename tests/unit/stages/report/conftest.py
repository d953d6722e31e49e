"""The example page, made once per file of tests."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from coevolve.stages.report.page.panels import draw
from coevolve.stages.report.write import render
from tests.unit.stages.report.example import values_of_the_page


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with chdir(tmp_path_factory.mktemp("run")):
        yield values_of_the_page()


@pytest.fixture(scope="module")
def charts(view: dict[str, Any]) -> dict[str, str]:
    return draw(view)


@pytest.fixture(scope="module")
def page(view: dict[str, Any], charts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text(render(view, charts), encoding="utf-8")
    return file

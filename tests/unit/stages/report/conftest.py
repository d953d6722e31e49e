"""The example page, made once per file of tests."""

from pathlib import Path

import pytest

from tests.unit.stages.report.example import example_page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text(example_page(), encoding="utf-8")
    return file

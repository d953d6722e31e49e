"""The model directory of a small generator."""

from pathlib import Path

import pytest

from tests.generator import hardly_trained
from tests.unit.stages.generate.small import TOOLS


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hardly_trained(TOOLS, tmp_path_factory.mktemp("generator"))

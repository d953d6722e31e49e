"""The output of one process for the small run, made once for many tests."""

from pathlib import Path

import pytest

from coevolve.stages.train import grpo
from tests.unit.stages.train import small


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    grpo.learn(small.settings(), small.WORLD, small.job(folder))
    return folder

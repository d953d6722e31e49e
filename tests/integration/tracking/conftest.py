"""A project folder for tests of trackers. Its store has tables already, because MLflow takes seconds to make them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mlflow.tracking import MlflowClient

    file = tmp_path_factory.mktemp("tables") / "mlflow.db"
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def root(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").mkdir()
    shutil.copy(tables, tmp_path / "mlruns")
    yield tmp_path

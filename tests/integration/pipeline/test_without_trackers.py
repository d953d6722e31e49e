"""The stages up to training on a machine that has neither MLflow, DVC nor Great Expectations, such as a rented GPU."""

import sys
from pathlib import Path

import pytest

from tests.project import Project, clone

BLOCK = "import sys\nsys.modules.update(dict.fromkeys(('mlflow', 'dvc', 'great_expectations')))\n"
MISSING = "mlflow does not answer (ModuleNotFoundError)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return clone(tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize(("mlflow", "said"), [("enabled", True), ("disabled", False)])
def test_policy_is_trained_and_measured(project: Project, mlflow: str, said: bool, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    project.set(tracking__mlflow=mlflow, train__steps=1, seed=int(said))
    project.environment["PYTHONPATH"] = f"{tmp_path}:src"
    project.run(sys.executable, "-m", "coevolve.stages.code")
    printed = ""
    for stage in ("tasks", "warm", "generator", "evaluate 0", "pairs 0", "train 0", "evaluate 1"):
        done = project.run(sys.executable, "-m", "coevolve.cli", "stage", *stage.split())
        printed += done.stdout + done.stderr
    assert "policies/1 solves: " in printed
    assert (MISSING in printed) == said

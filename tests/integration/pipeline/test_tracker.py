"""`dvc repro` with a real MLflow server on Postgres that dies in the middle of training and comes back."""

from pathlib import Path
from typing import Any

import pytest

from tests.project import clone
from tests.servers import serve, stop, store
from tests.waiting import PATIENCE, free_port, until

STEPS = 24


def test_training_goes_on_and_the_curve_is_whole_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    def history() -> list[tuple[int, float]]:
        """The points of the training run's curve that the server has."""
        client = mlflow.MlflowClient(uri)
        experiment = client.get_experiment_by_name("coevolve")
        found: list[Any] = (
            client.search_runs([experiment.experiment_id], "tags.`coevolve.key` = 'train/0'") if experiment else []
        )
        return [(one.step, one.value) for run in found for one in client.get_metric_history(run.info.run_id, "success")]

    folder = tmp_path / "server"
    folder.mkdir()
    (tmp_path / "project").mkdir()
    project = clone(tmp_path / "project")
    project.set(train__steps=STEPS)
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    project.environment["MLFLOW_TRACKING_URI"] = uri
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(int(PATIENCE)))  # of our own looks at a busy server
    with store("postgres", folder) as backend:
        server = serve(folder, port, backend)
        try:
            training = project.start("repro", "train@0")
            until(lambda: history() or training.poll() is not None, "no point of the curve has arrived")
            stop(server)
            assert training.poll() is None, "the server must die while training runs"
            assert training.wait(PATIENCE) == 0
            assert list((project.folder / "scratch/tracking").glob("*.jsonl"))
            server = serve(folder, port, backend)
            assert 0 < len(history()) < STEPS
            project.dvc("repro", "evaluate_base")
            assert [step for step, _ in sorted(history())] == list(range(STEPS))
            assert not list((project.folder / "scratch/tracking").glob("*.jsonl"))
        finally:
            stop(server)

"""The stage `train` on two processes: one run, every trajectory once."""

import os
from pathlib import Path

from coevolve.core.io import read_jsonl_objects
from coevolve.core.trajectories import read_trajectories
from tests.project import clone


def test_stage_starts_its_processes_and_writes_once(tmp_path: Path, cache: Path) -> None:
    project = clone(tmp_path, cache)
    project.set(launch__processes=2)
    project.environment["MLFLOW_TRACKING_URI"] = f"sqlite:///{tmp_path}/mlflow.db"
    project.dvc("repro", "train@0")
    trajectories = read_trajectories(tmp_path / "data/0/trajectories.parquet")
    rows = [row for _, row in read_jsonl_objects(tmp_path / "data/0/train_metrics.jsonl")]
    assert (
        len(trajectories) == len({one.trajectory_id for one in trajectories}) == sum(row["groups"] for row in rows) * 4
    )
    assert (tmp_path / "policies/1/model.safetensors").exists()
    assert [one for one in os.listdir(tmp_path / "scratch/train") if not one.startswith(".")] == []
    runs = project.run(
        "python", "-c", "import mlflow; print(len(mlflow.search_runs(search_all_experiments=True)))"
    ).stdout
    assert runs.split()[-1] == "1"

"""`dvc repro` with a learner by preference: pairs before training, and everything after it as ever."""

from collections import Counter
from pathlib import Path

import pytest

from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects
from coevolve.core.records import Pair
from coevolve.core.trajectories import read_trajectories
from tests.pipeline.conftest import Project, clone


@pytest.fixture(scope="module")
def preferring(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Project:
    """A clone in which `dvc repro` has run once with DPO."""
    project = clone(tmp_path_factory.mktemp("preferring"), cache)
    project.set(train__learner="dpo")
    project.dvc("repro")
    return project


def test_pairs_come_before_training_and_the_loop_goes_on(preferring: Project) -> None:
    folder = preferring.folder / "data/0"
    pairs = read_jsonl(folder / "pairs/pairs.jsonl", Pair)
    summary = read_json(folder / "summary/pairs.json")
    assert summary["figures"]["pairs"] == len(pairs) >= 8
    for kind, count in Counter(one.kind for one in pairs).items():
        assert summary["figures"][f"pairs: {kind}"] == count
    assert read_trajectories(folder / "trajectories.parquet") == read_trajectories(folder / "pairs/rehearsals.parquet")
    assert all("margin" in row for _, row in read_jsonl_objects(folder / "train_metrics.jsonl"))
    assert read_jsonl_objects(preferring.folder / "data/1/tasks.jsonl")
    assert "pairs" in preferring.run("coevolve", "summary").stdout
    assert "up to date" in preferring.dvc("status").stdout

"""W&B offline: the content that a run would send."""

import importlib.util
import json
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import policy_hash
from coevolve.core.paths import Paths
from coevolve.tracking.follow import follow
from tests.integration.tracking.example import OFFLINE, followed, write_run


def test_missing_wandb_error_names_the_extra(root: Path) -> None:
    if importlib.util.find_spec("wandb"):
        pytest.skip("wandb is installed")
    with pytest.raises(CoevolveError, match=r"pip install 'coevolve\[wandb\]'"):
        follow(OFFLINE)


def test_offline_wandb_gets_every_run_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_DIR", str(root / "scratch"))
    tracking = OFFLINE.tracking.model_copy(update={"mlflow": "disabled"})
    params = OFFLINE.model_copy(update={"tracking": tracking})
    write_run()
    assert followed(params) == 4 and followed(params) == 0
    folders = list((root / "scratch/wandb").glob("offline-run-*"))
    assert len(folders) == 4
    (evaluation,) = [folder for folder in folders if b"evaluate/1 workspace" in wandb_file(folder)]
    (table,) = evaluation.glob("files/media/table/trajectories*.json")
    (row,) = json.loads(table.read_text())["data"]
    assert row[1] == "e1" and json.loads(row[-1])[0]["role"] == "user"
    words = ["seed", "validation/success", "dataset/", "evaluate-outcomes.jsonl", "coevolve-policy", "dvc.hash"]
    for word in (*words, policy_hash(Paths.policy(1))):
        assert word.encode() in wandb_file(evaluation), word


def wandb_file(folder: Path) -> bytes:
    """The content that an offline run will send."""
    (file,) = folder.glob("run-*.wandb")
    return file.read_bytes()

"""W&B offline: the content that a run would send."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import policy_hash
from coevolve.tracking.config import Tracking
from coevolve.tracking.journal import start
from tests.integration.tracking.test_tracking import TRAJECTORY, journals


def test_missing_wandb_error_names_the_extra(root: Path) -> None:
    if importlib.util.find_spec("wandb"):
        pytest.skip("wandb is installed")
    with (
        pytest.raises(CoevolveError, match=r"pip install 'coevolve\[wandb\]'"),
        start(Tracking(experiment="t", wandb="offline"), "x"),
    ):
        pass


def test_offline_wandb_run_holds_all_events(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_DIR", str(root / "scratch"))
    config = Tracking(experiment="test", wandb="offline")
    data, policy = root / "tasks.jsonl", root / "policies/1"
    data.write_text("{}\n")
    policy.mkdir(parents=True)
    (policy / "model.safetensors").write_bytes(b"weights")
    (root / "scratch/tracking").mkdir(parents=True)
    start_event = {"kind": "start", "time": 0, "key": "train/0", "name": "train/0 killed", "tags": {}}
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (root / f"scratch/tracking/1-{killed.stdout.strip()}.jsonl").write_text(json.dumps(start_event) + "\n")
    with start(config, "evaluate/1") as run:
        run.params({"seed": 7})
        run.dataset(data, "evaluation")
        run.metrics({"test/success": 0.5})
        run.artifact(data)
        run.model(1, policy, {"validation": 0.5})
        run.trace(TRAJECTORY)
    assert journals(root) == []
    (first, ours) = sorted(
        (root / "scratch/wandb").glob("offline-run-*"), key=lambda folder: b"train/0 killed" not in wandb_file(folder)
    )
    assert b"train/0 killed" in wandb_file(first) and b"evaluate/1" not in wandb_file(first)
    (table,) = ours.glob("files/media/table/trajectories*.json")
    (row,) = json.loads(table.read_text())["data"]
    assert row[:2] == ["k", "t"] and json.loads(row[-1]) == TRAJECTORY["messages"]
    words = ["seed", "test/success", "dataset/", "evaluate-tasks.jsonl", "coevolve-policy", "dvc.hash"]
    for word in (*words, policy_hash(policy)):
        assert word.encode() in wandb_file(ours), word


def wandb_file(folder: Path) -> bytes:
    """The content that an offline run will send."""
    (file,) = folder.glob("run-*.wandb")
    return file.read_bytes()

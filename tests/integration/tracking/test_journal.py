"""The journal of a run: damaged lines, two processes that find the same journal, and other folders on a shared server."""

import fcntl
from pathlib import Path

import pytest

from coevolve.tracking.journal import start
from tests.integration.tracking.test_tracking import CONFIG, journals, runs


def test_a_damaged_line_is_skipped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kill or a full disk leaves the beginning of an event."""
    with start(CONFIG, "train/0") as run:
        (journal,) = (root / "scratch/tracking").glob("*.jsonl")
        with journal.open("a") as file:
            file.write('{"kind": "metr\n')
        run.metrics({"success": 0.5}, 7)
    (found,) = runs(f"sqlite:///{root}/mlruns/mlflow.db", "train/0")
    assert found.info.status == "FINISHED" and found.data.metrics == {"success": 0.5}
    assert "a line is damaged" in capsys.readouterr().out
    assert journals(root) == []


def test_one_process_at_a_time_sends_a_journal(root: Path) -> None:
    """Two stages that start together find the journal that a killed stage left."""
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    left = root / "scratch/tracking/1-1.jsonl"
    with start(CONFIG, "first") as run:
        (journal,) = left.parent.glob("*.jsonl")
        left.write_bytes(journal.read_bytes())
        with left.with_suffix(".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with start(CONFIG, "second"):
                pass
            assert left.exists() and len(runs(uri, "first")) == 1, "another process sends it"
        run.metrics({"success": 1.0})
    with start(CONFIG, "third"):
        pass
    assert journals(root) == [] and len(runs(uri, "first")) == 2


def test_runs_of_another_folder_on_a_shared_server_are_not_ours(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with start(CONFIG, "train/0"):
        monkeypatch.setenv("DVC_ROOT", str(tmp_path_factory.mktemp("colleague")))
        with start(CONFIG, "train/0"):
            pass
        with start(CONFIG, "pipeline") as theirs:
            theirs.child("train/0")
        monkeypatch.setenv("DVC_ROOT", str(root))
    found = runs(uri, "train/0")
    assert [one.info.status for one in found] == ["FINISHED", "FINISHED"]
    parents = {one.data.tags["coevolve.clone"]: one.data.tags.get("mlflow.parentRunId") for one in found}
    (pipeline,) = runs(uri, "pipeline")
    clone = pipeline.data.tags["coevolve.clone"]
    assert parents.pop(clone) == pipeline.info.run_id and list(parents.values()) == [None]

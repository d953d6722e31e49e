"""A user's mistakes: one line that names file, key or line, exit code 1, no traceback, nothing half-written."""

import json
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from coevolve.core.io import write_json, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.trajectories import StopReason, Trajectory, write_trajectories
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
from tests import ROOT
from tests.waiting import PATIENCE

TASKS = make("miniworld").tasks("seed")[:20]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace as `tasks` and `train` leave it."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    write_json(tmp_path / Paths.environment, identity(make("miniworld")))
    write_jsonl(tmp_path / "data/0/tasks.jsonl", TASKS)
    write_jsonl(tmp_path / "data/0/attempts.jsonl", [])
    write_jsonl(tmp_path / "data/0/signals.jsonl", [])
    for panel in make("miniworld").panels:
        write_jsonl(tmp_path / f"data/panels/{panel}.jsonl", make("miniworld").tasks(panel)[:5])
    one = Trajectory("t", TASKS[0].task_id, 0, 0, 0, 0, [], [], 1.0, StopReason.DONE)
    write_trajectories(tmp_path / "data/0/trajectories.parquet", [one])
    return tmp_path


def edit(file: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_text(change((folder / file).read_text())) and None


def remove(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def truncate(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:-40]) and None


def append(file: str, line: str) -> Callable[[Path], None]:
    return edit(file, lambda text: text + line + "\n")


def spelled(**changes: object) -> str:
    return json.dumps(asdict(replace(TASKS[0], **changes)))  # type: ignore[arg-type]


def paired(folder: Path) -> None:
    """Stage `pairs` has run, for a learner without any."""
    write_jsonl(folder / Paths.pairs(0) / "pairs.jsonl", [])
    for name in ("rehearsals", "references", "hard"):
        write_trajectories(folder / Paths.pairs(0) / f"{name}.parquet", [])


MISTAKES = [
    (
        "tasks",
        edit("params.yaml", lambda t: t.replace("seed_tasks:", "seeds:")),
        "params.yaml: unknown key tasks.seeds",
    ),
    ("tasks", edit("params.yaml", lambda t: t.replace("window: 5", "window: one")), "params.yaml: signals.window"),
    ("tasks", edit("params.yaml", lambda t: t.replace("{t: 1, next: 2}", "{t: 1, next: 3}")), "iterations[1]"),
    ("tasks", edit("params.yaml", lambda t: t.replace("environment: miniworld", "environment: moon")), "'moon'"),
    ("tasks", edit("params.yaml", lambda t: t.replace("panel: validation", "panel: valid")), "report.panel: 'valid'"),
    ("explore", remove("data/0/tasks.jsonl"), "data/0/tasks.jsonl: no such file"),
    ("signals", truncate("data/0/trajectories.parquet"), "data/0/trajectories.parquet: not a whole Parquet file"),
    ("explore", truncate("data/0/trajectories.parquet"), "data/0/trajectories.parquet: not a whole Parquet file"),
    ("explore", append("data/0/tasks.jsonl", spelled()), "data/0/tasks.jsonl:21: duplicate task_id"),
    ("explore", append("data/0/tasks.jsonl", spelled(environment="bfcl")), "data/0/tasks.jsonl:21: task"),
    ("explore", append("data/0/tasks.jsonl", spelled(schema_version=9)), "data/0/tasks.jsonl:21: schema_version 9"),
    ("explore", append("data/0/tasks.jsonl", '{"task_id": '), "data/0/tasks.jsonl:21: expected a JSON object"),
    ("explore", append("data/0/signals.jsonl", "{}"), "data/0/signals.jsonl:1: signal_id"),
    ("train", lambda folder: None, "data/0/pairs/pairs.jsonl: no such file"),
    ("train", paired, "policies/0: expected a transformers model directory"),
    ("validate", lambda folder: None, "data/0/verified/accepted.jsonl: no such file"),
]


SPAWNED = {"tasks: params.yaml: unknown key tasks.seeds", "signals: data/0/trajectories.parquet: not a whole"}
NAMES = [f"{stage}: {says[:40]}" for stage, _, says in MISTAKES]


@pytest.mark.parametrize(("stage", "mistake", "says"), MISTAKES, ids=NAMES)
def test_a_mistake_is_one_line(
    folder: Path,
    stage: str,
    mistake: Callable[[Path], None],
    says: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mistake(folder)
    before = sorted(str(file) for file in (folder / "data").rglob("*"))
    command = [str(ROOT / f"pipelines/{stage}.py"), *([] if stage == "tasks" else ["0"])]
    monkeypatch.chdir(folder)
    if request.node.callspec.id in SPAWNED:
        code = subprocess.run([sys.executable, *command], timeout=PATIENCE).returncode
    else:  # the same door without the price of a new process
        code = ended(command, monkeypatch)
    out, err = capfd.readouterr()
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 1, err
    assert len(errors) == 1
    assert says in errors[0]
    assert "Traceback" not in err + out
    assert sorted(str(file) for file in (folder / "data").rglob("*")) == before


def test_some_of_them_are_processes() -> None:
    assert set(NAMES) >= SPAWNED


def ended(command: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of the script that ``command`` runs, in this process."""
    monkeypatch.setattr(sys, "argv", command)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as left:
            runpy.run_path(command[0], run_name="__main__")
    finally:
        signal.signal(signal.SIGTERM, handler)
    return left.value.code

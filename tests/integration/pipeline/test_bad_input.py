"""One mistake or damage per reader of a stage: exit code 1, one line that names the file, nothing half-written."""

import runpy
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.trajectories import StopReason, Trajectory, write_trajectories
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
from coevolve.stages.code.digest import digest
from coevolve.stages.schema import load
from tests import POLICY, ROOT

TASKS = make("miniworld").tasks("seed")[:20]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace as `tasks` and `train` leave it, without data/code."""
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    write_json(tmp_path / Paths.environment, identity(make("miniworld")))
    write_jsonl(tmp_path / "data/0/tasks.jsonl", TASKS)
    write_jsonl(tmp_path / "data/0/attempts.jsonl", [])
    write_jsonl(tmp_path / "data/0/signals.jsonl", [])
    for panel in make("miniworld").panels:
        write_jsonl(tmp_path / f"data/panels/{panel}.jsonl", make("miniworld").tasks(panel)[:5])
    one = Trajectory("t", TASKS[0].task_id, 0, 0, 0, 0, [], [], 1.0, StopReason.DONE)
    write_trajectories(tmp_path / "data/0/trajectories.parquet", [one])
    return tmp_path


def digested(folder: Path, *stages: str) -> None:
    """Run stage `code` for ``stages``, unless params.yaml is invalid."""
    with suppress(CoevolveError):
        params = load(folder / "params.yaml")
        for stage in stages:
            write_json(folder / Paths.code(stage), digest(stage, params))


def edit(file: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_text(change((folder / file).read_text())) and None


def remove(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def truncate(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:-40]) and None


def append(file: str, line: str) -> Callable[[Path], None]:
    return edit(file, lambda text: text + line + "\n")


def paired(folder: Path) -> None:
    """Run stage `pairs` for a learner without pairs, and `replay` with nothing to keep."""
    write_trajectories(folder / Paths.replay, [])
    write_jsonl(folder / Paths.pairs(0) / "pairs.jsonl", [])
    for name in ("rehearsals", "references", "hard"):
        write_trajectories(folder / Paths.pairs(0) / f"{name}.parquet", [])


def torn(file: str) -> Callable[[Path], None]:
    """Damage ``file`` of a policy."""

    def damage(folder: Path) -> None:
        paired(folder)
        shutil.copytree(POLICY, folder / Paths.policy(0))
        truncate(f"policies/0/{file}")(folder)

    return damage


MISTAKES = [
    (
        "tasks",
        edit("params.yaml", lambda t: t.replace("seed_tasks:", "seeds:")),
        "params.yaml: unknown key tasks.seeds",
    ),
    ("explore", remove("data/0/tasks.jsonl"), "data/0/tasks.jsonl: no such file"),
    ("explore", truncate("data/environment.json"), "data/environment.json: expected JSON"),
    ("signals", truncate("data/0/trajectories.parquet"), "data/0/trajectories.parquet: not a whole Parquet file"),
    ("explore", append("data/0/tasks.jsonl", '{"task_id": '), "data/0/tasks.jsonl:21: expected a JSON object"),
    ("explore", append("data/0/signals.jsonl", "{}"), "data/0/signals.jsonl:1: signal_id"),
    ("train", paired, "policies/0: no such file or folder; run `dvc repro`"),
    ("train", torn("model.safetensors"), "policies/0"),
]


def undigested(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Make ``change`` after stage `code` has run."""

    def made(folder: Path) -> None:
        digested(folder, "explore", "evaluate")
        change(folder)

    return made


DIGESTS = [
    ("explore", remove("data/code/explore.json"), "data/code/explore.json: no such file; run `dvc repro`"),
    (
        "explore",
        edit("data/code/explore.json", lambda t: t.replace('success.py": "', 'success.py": "0')),
        "data/code/explore.json is stale: coevolve/core/success.py has changed since; run `dvc repro`",
    ),
    (
        "explore",
        edit("params.yaml", lambda t: t.replace("seed: 0", "seed: 1")),
        "data/code/explore.json is stale: seed has changed since",
    ),
]
MISTAKES += [(stage, undigested(change), says) for stage, change, says in DIGESTS]


NAMES = [f"{stage}: {says[:40]}" for stage, _, says in MISTAKES]


@pytest.mark.parametrize(("stage", "mistake", "says"), MISTAKES, ids=NAMES)
def test_a_mistake_is_a_one_line_error(
    folder: Path,
    stage: str,
    mistake: Callable[[Path], None],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mistake(folder)
    if not (folder / "data/code").exists():
        digested(folder, stage)
    before = sorted(str(file) for file in (folder / "data").rglob("*"))
    command = [str(ROOT / f"pipelines/{stage}.py"), *([] if stage == "tasks" else ["0"])]
    monkeypatch.chdir(folder)
    code = ended(command, monkeypatch)
    out, err = capfd.readouterr()
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 1, err
    assert len(errors) == 1
    assert says in errors[0]
    assert "Traceback" not in err + out
    assert sorted(str(file) for file in (folder / "data").rglob("*")) == before


def ended(command: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of the script in ``command``, which runs in this process."""
    monkeypatch.setattr(sys, "argv", command)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as left:
            runpy.run_path(command[0], run_name="__main__")
    finally:
        signal.signal(signal.SIGTERM, handler)
    return left.value.code

"""Every kind of file that a stage reads, damaged in every way: one line that names it, and nothing half-written."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.core.io import write_json, write_jsonl
from coevolve.core.outcomes import Outcome
from coevolve.core.paths import Paths
from coevolve.core.records import Attempt, Candidate, Exploration, Gate, Pair, Signal, Verdict
from coevolve.core.stage_summary import StageSummary
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import StopReason, Trajectory, write_trajectories
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
from tests import ROOT
from tests.integration.pipeline.test_bad_input import digested, ended
from tests.waiting import PATIENCE

WORLD = make("miniworld")
TASKS = WORLD.tasks("seed")[:20]
DEEP = b"[" * 1_200 + b"]" * 1_200

Damage = Callable[[Path], object]


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    draw = random.Random(path.name)
    for _ in range(3):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Damage] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut at the end": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "flipped bytes": _flipped,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no UTF-8": lambda path: path.write_bytes(b'{"a": "\xff\xfe"}\n' + path.read_bytes()),
    "deep": lambda path: path.write_bytes(DEEP + b"\n" + path.read_bytes()),
    "another value": lambda path: path.write_bytes(b"[1]\n"),
    "another object": lambda path: path.write_bytes(b'{"schema_version": 1, "x": {}}\n'),
    "a folder": _folder,
}
# of each stage, a file of each kind that it reads; all damages are done to the first of a kind, to the others those that differ
READS = {
    "tasks": ["params.yaml"],
    "signals": ["data/code/signals.json", "data/0/trajectories.parquet", "data/0/attempts.jsonl"],
    "explore": ["data/environment.json", "data/0/tasks.jsonl"],
    "evaluate": ["policies/0/model.safetensors", "policies/0/tokenizer.json", "policies/0/config.json"],
    "report": ["dvc.yaml"],
}
MORE = {
    "train": ["data/0/pairs/pairs.jsonl", "data/0/pairs/rehearsals.parquet"],
    "explore": ["data/0/signals.jsonl", "data/0/trajectories.parquet"],
    "synthesize": ["data/0/explorations.jsonl"],
    "verify": ["data/panels/test.jsonl"],
    "validate": ["data/0/verified/accepted.jsonl"],
    "watch": ["data/0/train_metrics.jsonl", "data/1/attempts.jsonl", "data/0/verified/verdicts.jsonl"],
    "evaluate": ["policies/0/tokenizer_config.json"],
    "report": ["evaluations/0/metrics.json", "evaluations/0/outcomes.jsonl", "data/0/summary/tasks.json"],
}  # fmt: skip
DIFFER = ("cut in half", "deep", "another object")
# what a stage cannot know is wrong, and goes through at the price of the whole stage
UNSEEN = {
    ("policies/0/model.safetensors", "flipped bytes"),
    ("policies/0/config.json", "gone"),
    ("dvc.yaml", "cut at the end"),  # a plot less
    ("dvc.yaml", "flipped bytes"),  # other paths, which are right for all that a stage knows
}
HARMLESS = {
    ("params.yaml", "cut at the end"),  # a comment
    ("params.yaml", "cut in half"),  # the lost keys have the values of their defaults, and the digest holds all values
    ("data/0/attempts.jsonl", "empty"),
    ("data/0/verified/accepted.jsonl", "another object"),  # goes to quarantine
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in the middle of a run, every kind of file in it."""
    folder = tmp_path_factory.mktemp("whole")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / Paths.base, folder / Paths.policy(0))
    params = (folder / "params.yaml").read_text().replace("{t: 1, next: 2}", "").replace("{t: 2, next: 3}", "")
    (folder / "params.yaml").write_text("\n".join(line for line in params.splitlines() if line.strip() != "-") + "\n")
    digested(folder, *READS, *MORE)
    write_json(folder / Paths.environment, identity(WORLD))
    for t in (0, 1):
        write_jsonl(folder / Paths.tasks(t), TASKS)
        write_jsonl(folder / Paths.attempts(t), [Attempt(TASKS[0].task_id, -1 if t == 0 else 0, 0, 1.0)])
        write_json(folder / Paths.evaluation(t) / "metrics.json", {})
    for panel in WORLD.panels:
        write_jsonl(folder / Paths.panel(panel), WORLD.tasks(panel)[:5])
    call = CallOutcome("balance", {}, True, '{"balance":5}')
    seen = Trajectory(
        "t", TASKS[0].task_id, 0, 0, 0, 0, [{"role": "user", "content": "x"}], [call], 1.0, StopReason.DONE
    )
    write_trajectories(folder / Paths.trajectories(0), [seen])
    write_jsonl(
        folder / Paths.pairs(0) / "pairs.jsonl", [Pair("p", TASKS[0].task_id, 0, "expert_target", "r", "t", 0.5)]
    )
    for name in ("rehearsals", "references", "hard"):
        write_trajectories(folder / Paths.pairs(0) / f"{name}.parquet", [seen])
    write_jsonl(folder / Paths.signals(0), [Signal("s", "boundary", 0, TASKS[0].task_id, None, 0.5, {}, ["t"])])
    world = TASKS[0].world
    found = Exploration("e", "miniworld", 0, ["s"], TASKS[0].task_id, world, "boundary", [], [], [call], "scripted")
    write_jsonl(folder / Paths.explorations(0), [found])
    write_jsonl(folder / Paths.candidates(0), [Candidate("c", TASKS[0], [[0, 0]])])
    write_jsonl(folder / Paths.verified(0) / "accepted.jsonl", TASKS[:1])
    write_jsonl(folder / Paths.verified(0) / "verdicts.jsonl", [Verdict("c", "t", True, [Gate("readable", True)])])
    write_jsonl(
        folder / Paths.data(0) / "train_metrics.jsonl", [{"step": 0, "groups": 4, "groups_without_variance": 1}]
    )
    write_json(folder / Paths.summary(0, "tasks"), asdict(StageSummary("tasks", 0, {"tasks": 20}, columns=["tasks"])))
    write_jsonl(
        folder / Paths.evaluation(0) / "outcomes.jsonl", [Outcome("test", "t", "x", 1.0, True, "done", 3, 9, {})]
    )
    return folder


CASES = [
    (stage, file, damage)
    for files, damages in ((READS, DAMAGES), (MORE, DIFFER))
    for stage, names in files.items()
    for file in names
    for damage in damages
    if (file, damage) not in UNSEEN
]


@pytest.mark.parametrize(("stage", "file", "damage"), CASES, ids=[", ".join(case) for case in CASES])
def test_a_damaged_file_is_one_line(
    whole: Path,
    tmp_path: Path,
    stage: str,
    file: str,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    DAMAGES[damage](folder / file)
    before = {str(one) for one in folder.rglob("*")}
    arguments = [] if stage in ("tasks", "report") else ["0"]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DVC_ROOT", str(folder))
    code = ended([str(ROOT / f"pipelines/{stage}.py"), *arguments], monkeypatch)
    _, err = capfd.readouterr()
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == ((file, damage) not in HARMLESS), err
    assert len(errors) == code
    named = "policies/0" if file.startswith("policies/") else file
    assert all(f"error: {named}" in one for one in errors), errors
    assert "Traceback" not in err
    left = {str(one) for one in folder.rglob("*")} - before
    assert not any(".tmp" in one for one in left), left


WRITES = {
    "explore": "data/0/requests/explore/spend.json",
    "synthesize": "data/0/requests/synthesize/spend.json",
    "verify": "data/0/requests/verify/spend.json",
    "validate": "data/1/data_docs",
    "watch": "data/0/watch.json",
}
NO_ROOM = (
    "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)); sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.parametrize("stage", WRITES)
def test_a_full_disk_is_one_line_that_names_a_file(whole: Path, tmp_path: Path, stage: str) -> None:
    """The stage ends, and no process of it keeps its output open."""
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    for name in ("pairs", "generate"):
        write_json(folder / Paths.summary(0, name), asdict(StageSummary(name, 0, {})))
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM, str(ROOT / f"pipelines/{stage}.py"), "0"],
        cwd=folder,
        env={**os.environ, "DVC_ROOT": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1 and "Traceback" not in done.stderr + done.stdout, done.stderr
    assert len(errors) == 1 and errors[0].endswith("make room, and run the same command again"), done.stderr
    named = errors[0].removeprefix("error: ").split(" cannot be written")[0]
    assert named.removeprefix(f"{folder}/") == WRITES[stage]
    left = {file.name for file in (folder / "data").rglob("*")} - {file.name for file in (whole / "data").rglob("*")}
    assert not any(".tmp" in name for name in left), left

"""Two processes on the CPU, by gloo and by DeepSpeed: the same trajectories and losses as one process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from coevolve.core.io import read_jsonl_objects
from coevolve.core.trajectories import read_trajectories
from coevolve.policies.transformers_policy import load
from coevolve.stages.train.steps import COMPLETE
from tests import ROOT
from tests.stages.train.test_grpo import whole  # noqa: F401

# DeepSpeed's CPU back end compiles an operator when it is first used
DEEPSPEED = find_spec("deepspeed") is not None and shutil.which("g++") is not None


def launching(folder: Path, settings: dict[str, dict[str, object]], machine: int = 0) -> "subprocess.Popen[str]":
    code = textwrap.dedent(f"""
        import json
        from coevolve.core import launch
        from coevolve.core.params import load
        from coevolve.core.stage import guard
        from pathlib import Path
        config = load(Path({str(ROOT / "params.yaml")!r})).launch.model_copy(update={settings["launch"]!r})
        guard(lambda: launch.spawn(config, "-m", "tests.stages.train.worker", {str(folder)!r}, {json.dumps(settings)!r}))
    """)
    environment = {**os.environ, "COEVOLVE_MACHINE": str(machine)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def launched(folder: Path, settings: dict[str, dict[str, object]]) -> subprocess.CompletedProcess[str]:
    process = launching(folder, settings)
    out, err = process.communicate(timeout=400)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def metrics(folder: Path) -> list[dict[str, float]]:
    return [value for _, value in read_jsonl_objects(folder / "metrics.jsonl")]


@pytest.mark.parametrize(
    ("sharding", "micro_batch"),
    [
        ("none", 0),
        ("none", 2),
        pytest.param("zero2", 0, marks=pytest.mark.skipif(not DEEPSPEED, reason="needs DeepSpeed and g++")),
        pytest.param("zero3", 0, marks=pytest.mark.skipif(not DEEPSPEED, reason="needs DeepSpeed and g++")),
    ],
)
def test_two_processes_train_as_one(whole: Path, tmp_path: Path, sharding: str, micro_batch: int) -> None:  # noqa: F811
    settings = {"launch": {"processes": 2, "sharding": sharding}, "train": {"micro_batch": micro_batch}}
    done = launched(tmp_path, settings)
    assert done.returncode == 0, done.stderr[-3000:]
    ours, theirs = (
        read_trajectories(tmp_path / "trajectories.parquet"),
        read_trajectories(whole / "trajectories.parquet"),
    )
    assert [one.trajectory_id for one in ours] == [one.trajectory_id for one in theirs], "each once, in one order"
    assert [one.messages for one in ours] == [one.messages for one in theirs]
    for one, other in zip(metrics(tmp_path), metrics(whole), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)
        assert (one["groups"], one["groups_trained"]) == (other["groups"], other["groups_trained"])
    for one, other in zip(
        load(tmp_path / "policy")[0].parameters(), load(whole / "policy")[0].parameters(), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.skipif(not DEEPSPEED, reason="needs DeepSpeed and g++")
def test_lora_under_zero_3_is_merged_into_a_whole_model(tmp_path: Path) -> None:
    settings: dict[str, dict[str, object]] = {
        "launch": {"processes": 2, "sharding": "zero3"},
        "lora": {"enabled": True, "targets": ["q_proj", "v_proj"]},
        "train": {"steps": 1, "learning_rate": 0.01},
    }
    done = launched(tmp_path, settings)
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = (
        dict(load(ROOT / "policies/0")[0].named_parameters()),
        load(tmp_path / "policy")[0].named_parameters(),
    )
    changed = {name.rsplit(".", 2)[1] for name, value in after if not torch.allclose(value, before[name], atol=1e-7)}
    assert changed == {"q_proj", "v_proj"}


def test_two_machines_train_as_one(whole: Path, tmp_path: Path) -> None:  # noqa: F811
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings: dict[str, dict[str, object]] = {"launch": {"machines": 2, "address": "127.0.0.1", "port": port}}
    machines = [launching(tmp_path, settings, machine) for machine in (0, 1)]
    for process in machines:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-3000:]
    ours, theirs = (
        read_trajectories(tmp_path / "trajectories.parquet"),
        read_trajectories(whole / "trajectories.parquet"),
    )
    assert [one.trajectory_id for one in ours] == [one.trajectory_id for one in theirs]
    assert [one["loss"] for one in metrics(tmp_path)] == pytest.approx(
        [one["loss"] for one in metrics(whole)], abs=1e-5
    )


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    process = launching(tmp_path, {"launch": {"processes": 2}, "train": {"steps": 200}})
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(f"scratch/checkpoint-1/{COMPLETE}")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "interrupted; run the same command again to go on" in err and "Traceback" not in err
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout.split()
    assert not left


def test_an_error_in_a_process_is_one_line_and_ends_all(tmp_path: Path) -> None:
    done = launched(tmp_path, {"launch": {"processes": 2}, "train": {"micro_batch": 3}})
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert errors and all("train.tasks_per_step × train.group_size is 16, which 2 processes" in line for line in errors)
    assert "Traceback" not in done.stderr

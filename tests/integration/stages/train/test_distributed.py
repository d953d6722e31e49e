"""Two processes on the CPU, with gloo and with DeepSpeed, give the same trajectories and losses as one process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve.core.io import read_jsonl_objects, write_jsonl
from coevolve.core.trajectories import read_trajectories, write_trajectories
from coevolve.policies.loading import playing
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Limits
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.pairs.stage import make
from coevolve.stages.train import grpo
from coevolve.stages.train.learners import LEARNERS
from coevolve.stages.train.saving import COMPLETE
from tests import POLICY, ROOT
from tests.unit.stages.train import small
from tests.waiting import PATIENCE, free_port, until

# DeepSpeed's CPU back end compiles an operator when it is first used
DEEPSPEED = find_spec("deepspeed") is not None and shutil.which("g++") is not None

STARTED: list["subprocess.Popen[str]"] = []


def launching(launch: dict[str, object], *command: str, machine: int = 0) -> "subprocess.Popen[str]":
    """Launch ``command`` as stages are launched, with these values in section `launch`."""
    code = textwrap.dedent(f"""
        import sys
        from coevolve.core import launch
        from coevolve.stages.schema import load
        from coevolve.core.guard import guard
        from pathlib import Path
        config = load(Path({str(ROOT / "params.yaml")!r})).launch.model_copy(update={launch!r})
        guard(lambda: launch.spawn(config, *sys.argv[1:]))
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command],
        cwd=ROOT,
        env={**os.environ, "COEVOLVE_MACHINE": str(machine)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Kill all processes that a test has started."""
    yield
    while STARTED:
        STARTED.pop().terminate()


def training(folder: Path, machine: int = 0, **settings: Any) -> "subprocess.Popen[str]":
    worker = ("-m", "tests.integration.stages.train.worker", str(folder), json.dumps(settings))
    return launching(settings["launch"], *worker, machine=machine)


def finished(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit code and the standard error of the process."""
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


def metrics(folder: Path) -> list[dict[str, float]]:
    return [value for _, value in read_jsonl_objects(folder / "metrics.jsonl")]


def agree(folder: Path, alone: Path) -> None:
    """Assert that trajectories, losses and weights of ``folder`` equal those that one process made in ``alone``."""
    ours, theirs = (read_trajectories(place / "trajectories.parquet") for place in (folder, alone))
    assert [one.trajectory_id for one in ours] == [one.trajectory_id for one in theirs], "each once, in one order"
    assert [one.messages for one in ours] == [one.messages for one in theirs]
    for one, other in zip(metrics(folder), metrics(alone), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)
        assert (one["groups"], one["groups_trained"]) == (other["groups"], other["groups_trained"])
    after, reference = (dict(load(place / "policy")[0].named_parameters()) for place in (folder, alone))
    assert after.keys() == reference.keys()
    assert all(torch.allclose(after[name], reference[name], atol=1e-4) for name in after)


@pytest.mark.skipif(not DEEPSPEED, reason="needs DeepSpeed and g++")
def test_zero_3_adapters_train_like_one_process_and_are_merged(tmp_path: Path) -> None:
    changes = {"steps": 2, "lora": {"enabled": True, "targets": ["q_proj", "v_proj"]}}
    own: dict[str, object] = {"learning_rate": 0.01}
    process = training(tmp_path / "sharded", launch={"processes": 2, "sharding": "zero3"}, train=changes, learner=own)
    grpo.learn(small.settings(small.changed(**changes), **own), small.WORLD, small.job(tmp_path / "alone"))
    code, err = finished(process)
    assert code == 0, err[-3000:]
    agree(tmp_path / "sharded", tmp_path / "alone")
    before = dict(load(POLICY)[0].named_parameters())
    after = load(tmp_path / "sharded/policy")[0].named_parameters()
    changed = {name.rsplit(".", 2)[1] for name, value in after if not torch.allclose(value, before[name], atol=1e-7)}
    assert changed == {"q_proj", "v_proj"}


def test_two_machines_train_like_one(whole: Path, tmp_path: Path) -> None:
    """With shared prefixes, however short, in all passes, the result equals that of plain passes."""
    launch: dict[str, object] = {"machines": 2, "address": "127.0.0.1", "port": free_port()}
    passes: dict[str, object] = {"micro_batch": 2}  # a share of a step in several
    for process in [training(tmp_path, machine, launch=launch, train=passes, shares=True) for machine in (0, 1)]:
        code, err = finished(process)
        assert code == 0, err[-3000:]
    agree(tmp_path, whole)


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    process = training(tmp_path, launch={"processes": 2}, train={"steps": 10**6})
    until(
        lambda: process.poll() is not None or list(tmp_path.glob(f"scratch/checkpoint-1/{COMPLETE}")),
        "no checkpoint was written",
    )
    process.send_signal(signal.SIGINT)
    code, err = finished(process)
    assert code == 130, err[-3000:]
    assert "interrupted; run the same command again to continue" in err and "Traceback" not in err
    assert left(tmp_path) == []


FAILING = """
import os, pathlib, sys, threading
from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
def main():
    here = pathlib.Path(sys.argv[1])
    (here / os.environ["RANK"]).touch()
    while len(list(here.iterdir())) < 2:
        threading.Event().wait(0.05)
    if os.environ["RANK"] == "1":
        raise CoevolveError("rank 1 does not like it")
    threading.Event().wait()
guard(main)
"""


def test_error_in_a_process_is_one_line_and_ends_all(tmp_path: Path) -> None:
    code, err = finished(launching({"processes": 2}, "-c", FAILING, str(tmp_path)))
    assert code == 1
    assert [line for line in err.splitlines() if "error:" in line] == ["error: rank 1 does not like it"]
    assert "Traceback" not in err
    assert left(tmp_path) == []


def left(folder: Path) -> list[str]:
    """Processes with ``folder`` in their command that still run."""
    return subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True).stdout.split()


def test_two_processes_learn_from_pairs_like_one(tmp_path: Path) -> None:
    """One pair per pass, so that both means over a pass are of the same tokens."""
    (tmp_path / "rehearsal").mkdir()
    play = partial(playing, config=small.ACTING, temperature=small.CONFIG.temperature)
    tasks, limits = small.WORLD.tasks("seed")[:16], Limits.of(small.ACTING)
    rehearsal = Rehearsal(0, 0, tasks, [], tmp_path / "rehearsal", small.WORLD, limits, play)
    made = make(POLICY, rehearsal, small.CONFIG, small.PARAMS.pairs)
    write_jsonl(tmp_path / "pairs/pairs.jsonl", made.pairs)
    for kind, episodes in (("rehearsals", made.rehearsals), ("references", made.references)):
        write_trajectories(tmp_path / f"pairs/{kind}.parquet", episodes)
    changes: dict[str, object] = {"learner": "dpo", "micro_batch": 1}
    process = training(tmp_path / "two", launch={"processes": 2}, train=changes)
    one = replace(small.job(tmp_path / "one"), pairs=made.pairs, rehearsals=made.rehearsals, references=made.references)
    LEARNERS.find("dpo", "learn")(small.settings(small.changed(**changes)), small.WORLD, one)
    code, err = finished(process)
    assert code == 0, err[-3000:]
    agree(tmp_path / "two", tmp_path / "one")

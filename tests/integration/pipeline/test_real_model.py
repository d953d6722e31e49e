"""A pretrained language model in the loop's scripts: SmolLM2-135M, a warm start, a step of GRPO and a step of DPO.

`make models/smollm2/config.json` builds the model before, in half a minute. Without it the test is skipped.
"""

import math
import os
from pathlib import Path

import pytest

from coevolve.commands.profile import apply
from coevolve.core.hashing import policy_hash
from coevolve.core.io import read_jsonl_objects
from coevolve.core.trajectories import read_trajectories
from tests import ROOT
from tests.project import Project, clone

MODEL = ROOT / "models/smollm2"
SMALL = {
    "environment": "sql",  # a prompt of 60 tokens; miniworld's tools have 400
    "base__model": str(MODEL),
    "warm__split": "seed",
    "warm__steps": 12,
    "warm__batch": 1,
    "warm__micro_batch": 1,
    "warm__tasks": 12,
    "tasks__seed_tasks": 4,
    "policy__max_turns": 3,
    "train__steps": 1,
    "train__tasks_per_step": 2,
    "train__group_size": 2,
    "train__micro_batch": 2,
    "grpo__beta": 0.1,
    "pairs__hard": 0.0,
    "evaluate__tasks": 2,
    "evaluate__panels": ["validation"],
}


@pytest.fixture
def smollm2(tmp_path: Path) -> Project:
    if not (MODEL / "config.json").exists() and not os.environ.get("COEVOLVE_REQUIRE_SMOLLM2"):
        pytest.skip("models/smollm2 is missing; `make models/smollm2/config.json` builds it")
    project = clone(tmp_path)
    apply("smollm2-135m", tmp_path / "params.yaml")
    project.set(**SMALL)
    for stage in ("base", "tasks", "warm", "replay"):
        project.stage(stage)
    return project


def test_smollm2_learns_with_every_learner(smollm2: Project) -> None:
    folder = smollm2.folder
    assert not list((folder / "policies/base").glob("*.safetensors")), "a pointer"
    learned = {"base": policy_hash(folder / "policies/base"), "warm": policy_hash(folder / "policies/0")}
    for learner in ("grpo", "dpo"):
        smollm2.set(train__learner=learner)
        smollm2.stage("pairs", "0")
        smollm2.stage("train", "0")
        learned[learner] = policy_hash(folder / "policies/1")
        ((_, row),) = read_jsonl_objects(folder / "data/0/train_metrics.jsonl")
        assert all(math.isfinite(value) for value in row.values() if isinstance(value, float))
        if learner == "grpo":
            assert row["kl"] == 0  # what was sampled is as likely in the pass that learns
        else:
            assert row["grad_norm"] > 0
    assert len(set(learned.values())) == 4
    assert any(one.calls for one in read_trajectories(folder / "data/0/trajectories.parquet"))
    (folder / "evaluations/0").mkdir(parents=True)  # the stage waits for it and reads nothing of it
    smollm2.stage("evaluate", "1")
    assert len(list(read_jsonl_objects(folder / "evaluations/1/outcomes.jsonl"))) == SMALL["evaluate__tasks"]

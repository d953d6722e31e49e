"""GRPO on the committed tiny policy: what TRL is given, what it leaves, and a run that was killed."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from coevolve.core.io import read_jsonl_objects
from coevolve.core.params import Launch, Train
from coevolve.core.params import load as load_params
from coevolve.core.records import StopReason
from coevolve.core.success import is_success
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.environments.registry import make
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Limits
from coevolve.stages.train import grpo
from coevolve.stages.train.batch import row as row_of
from coevolve.stages.train.learner import Job, Settings
from coevolve.stages.train.steps import COMPLETE
from tests import ROOT

WORLD = make("miniworld")
PARAMS = load_params(ROOT / "params.yaml")
CONFIG = PARAMS.train.model_copy(update={"steps": 3, "tasks_per_step": 4, "group_size": 4, "save_steps": 1})
ACTING = PARAMS.policy.model_copy(
    update={"max_turns": 8, "episode_tokens": 256, "reply_tokens": 64, "max_seconds": 60.0}
)
LIMITS = Limits.of(ACTING)


def settings(config: Train = CONFIG, launch: Launch = PARAMS.launch) -> Settings:
    return Settings(config, ACTING, launch, PARAMS.grpo)


def job(folder: Path) -> Job:
    return Job(
        0, 0, ROOT / "policies/0", WORLD.tasks("seed")[:16], folder / "policy", folder / "trajectories.parquet",
        folder / "metrics.jsonl", folder / "scratch",
    )  # fmt: skip


def outputs(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    grpo.learn(settings(), WORLD, job(folder))
    return folder


def test_every_trajectory_is_kept_with_iteration_step_and_group(whole: Path) -> None:
    trajectories = read_trajectories(whole / "trajectories.parquet")
    metrics = [value for _, value in read_jsonl_objects(whole / "metrics.jsonl")]
    assert [row["step"] for row in metrics] == [0, 1, 2]
    for row in metrics:
        ours = [one for one in trajectories if one.step == row["step"]]
        assert len(ours) == row["groups"] * CONFIG.group_size
        assert {one.group for one in ours} == set(range(int(row["groups"])))
        assert {one.sample for one in ours} == set(range(CONFIG.group_size))
    assert all(torch.isfinite(torch.tensor(list(row.values()))).all() for row in metrics)
    assert not (whole / "scratch").exists()


class Flaky(Miniworld):
    """Breaks in every third episode."""

    def __init__(self) -> None:
        self._opened = itertools.count()

    def open(self) -> MiniworldSession:
        if next(self._opened) % 3 == 0:
            raise RuntimeError("out of order")
        return super().open()


def test_episodes_that_the_environment_broke_are_in_no_figure(tmp_path: Path) -> None:
    grpo.learn(settings(CONFIG.model_copy(update={"steps": 1})), Flaky(), job(tmp_path))
    trajectories = read_trajectories(tmp_path / "trajectories.parquet")
    whole = [one for one in trajectories if one.stop_reason is not StopReason.ENVIRONMENT_FAILED]
    assert 0 < len(whole) < len(trajectories)
    ((_, row),) = read_jsonl_objects(tmp_path / "metrics.jsonl")
    assert row["success"] == sum(is_success(one.score) for one in whole) / len(whole) > 0
    assert row["score"] == sum(one.score for one in whole) / len(whole)


def test_the_policy_changes_and_is_a_model_directory(whole: Path) -> None:
    before, _ = load(ROOT / "policies/0")
    after, tokenizer = load(whole / "policy")
    assert tokenizer.chat_template
    assert any(not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))


def test_killed_and_started_again_it_ends_in_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    code = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(ROOT)!r})
        from tests.stages.train import test_grpo as here
        place = here.job(Path({str(tmp_path)!r}))
        here.grpo.learn(here.settings(), here.WORLD, place)
    """)
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(f"scratch/checkpoint-1/{COMPLETE}")):
        assert time.monotonic() < deadline and process.poll() is None, "no checkpoint to kill it after"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "policy").exists()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert outputs(tmp_path) == outputs(whole)


def test_lora_is_a_switch_and_is_merged(tmp_path: Path) -> None:
    config = CONFIG.model_copy(
        update={"steps": 1, "lora": CONFIG.lora.model_copy(update={"enabled": True}), "learning_rate": 0.01}
    )
    grpo.learn(settings(config), WORLD, job(tmp_path))
    names = {name for name, _ in load(tmp_path / "policy")[0].named_parameters()}
    assert names == {name for name, _ in load(ROOT / "policies/0")[0].named_parameters()}


def test_the_environments_tokens_are_masked(tmp_path: Path) -> None:
    from coevolve.policies.transformers_policy import TransformersPolicy
    from coevolve.rollout import RolloutRequest, rollout

    model, tokenizer = load(ROOT / "policies/0")
    episodes = rollout(
        TransformersPolicy(model, tokenizer, 1.0), WORLD, [RolloutRequest(WORLD.tasks("seed")[0], 1)], LIMITS
    )
    made = row_of(episodes[0], 1.0, tokenizer.eos_token_id)
    own = "".join(tokenizer.decode([token]) for token, kept in zip(made.completion, made.mask, strict=True) if kept)
    said = [message["content"] for message in episodes[0].trajectory.messages if message["role"] == "assistant"]
    assert own == "".join(f"{text}<|end|>" for text in said)
    assert tokenizer.decode(made.prompt).startswith("<|user|>")


def test_canary_trl_calls_us_where_we_expect(tmp_path: Path) -> None:
    """What we override or are called by is TRL's own: a release that moves it must fail here, not in a run."""
    import inspect

    from trl import GRPOConfig, GRPOTrainer

    assert "rollout_func" in inspect.signature(GRPOTrainer.__init__).parameters
    assert list(inspect.signature(GRPOTrainer._generate_and_score_completions).parameters) == ["self", "inputs"]
    scored = inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters
    assert list(scored)[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]
    source = inspect.getsource(GRPOTrainer._generate)
    assert 'extra_fields.pop("env_mask"' in source
    assert {"steps_per_generation", "epsilon_high", "beta", "shuffle_dataset"} <= set(
        inspect.signature(GRPOConfig.__init__).parameters
    )
    shutil.rmtree(tmp_path)

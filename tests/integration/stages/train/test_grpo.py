"""GRPO on the committed tiny policy: its calls to TRL, its output, and a killed run."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve.core.io import read_jsonl_objects
from coevolve.core.records import Attempt
from coevolve.core.success import is_success
from coevolve.core.trajectories import StopReason, read_trajectories
from coevolve.policies.pretrained import stored_dtype
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Limits
from coevolve.stages.train import grpo
from coevolve.stages.train.grpo import _LoopTrainer
from coevolve.stages.train.learner import Log
from coevolve.stages.train.saving import COMPLETE
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession
from tests import POLICY
from tests.unit.stages.train.small import ACTING, CONFIG, WORLD, changed, job, outputs, settings, stop_at

LIMITS = Limits.of(ACTING)


def test_any_number_of_processes_gives_the_same_bytes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COEVOLVE_PROCESSES", "3")
    grpo.learn(settings(), WORLD, job(tmp_path))
    assert outputs(tmp_path) == outputs(whole)


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
    """Fails in every third episode."""

    def __init__(self) -> None:
        self._opened = itertools.count()

    def open(self) -> MiniworldSession:
        if next(self._opened) % 3 == 0:
            raise RuntimeError("out of order")
        return super().open()


def test_failed_episodes_are_in_no_figure(tmp_path: Path) -> None:
    grpo.learn(settings(CONFIG.model_copy(update={"steps": 1})), Flaky(), job(tmp_path))
    trajectories = read_trajectories(tmp_path / "trajectories.parquet")
    whole = [one for one in trajectories if one.stop_reason is not StopReason.ENVIRONMENT_FAILED]
    assert 0 < len(whole) < len(trajectories)
    ((_, row),) = read_jsonl_objects(tmp_path / "metrics.jsonl")
    assert row["success"] == sum(is_success(one.score) for one in whole) / len(whole) > 0
    assert row["score"] == sum(one.score for one in whole) / len(whole)


def test_interrupted_run_ends_with_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    """tests/smoke/test_repro.py shows the same of a process that was killed."""
    with pytest.raises(KeyboardInterrupt):
        grpo.learn(settings(), WORLD, job(tmp_path), stop_at(1))
    assert (tmp_path / f"scratch/checkpoint-1/{COMPLETE}").exists()
    assert not (tmp_path / "policy").exists()
    steps: list[int] = []
    grpo.learn(settings(), WORLD, job(tmp_path), lambda step, figures: steps.append(step))
    assert steps == [1, 2], "what a checkpoint holds is not trained again"
    assert outputs(tmp_path) == outputs(whole)


def test_resumed_run_draws_by_the_attempts_before_the_kill(tmp_path: Path) -> None:
    def learn(folder: Path, log: Log | None = None, attempts: Sequence[Attempt] = ()) -> dict[str, bytes]:
        few = replace(job(folder), tasks=WORLD.tasks("seed")[:6], attempts=attempts)  # all are seen by the second step
        grpo.learn(settings(changed(curriculum="learnable")), WORLD, few, log)
        return outputs(folder)

    whole = learn(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "again", stop_at(1))
    assert learn(tmp_path / "again") == whole
    mastered = [Attempt(task.task_id, 0, 0, 1.0, 64, 64) for task in WORLD.tasks("seed")[:3]]
    assert learn(tmp_path / "known", attempts=mastered) != whole, "earlier iterations count as well"


def test_attempts_at_one_task_stay_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes of one group each give the gradient of a single pass."""
    prompts: list[int] = []

    def counted(self: Any, model: Any, ids: torch.Tensor, mask: torch.Tensor, scored: int, **others: Any) -> Any:
        firsts = {
            tuple(row[there > 0].tolist()) for row, there in zip(ids[:, :-scored], mask[:, :-scored], strict=True)
        }
        prompts.append(len(firsts))
        return passes(self, model, ids, mask, scored, **others)

    passes = _LoopTrainer._get_per_token_logps_and_entropies
    monkeypatch.setattr(_LoopTrainer, "_get_per_token_logps_and_entropies", counted)
    weights = []
    for rows in (0, CONFIG.group_size):
        config = CONFIG.model_copy(update={"steps": 1, "micro_batch": rows})
        grpo.learn(settings(config, beta=0.0, refill_rounds=0), WORLD, job(tmp_path / str(rows)))
        weights.append(load(tmp_path / str(rows) / "policy")[0].state_dict())
    assert prompts[0] > 1 and prompts[1:] == [1] * CONFIG.tasks_per_step
    start = load(POLICY)[0].state_dict()
    for name, whole in weights[0].items():
        assert torch.allclose(weights[1][name] - start[name], whole - start[name], atol=1e-5)


def test_adapters_on_bfloat16_weights_leave_a_float32_parent_float32(tmp_path: Path) -> None:
    """A small step would be lost in bfloat16."""
    made = settings(changed(steps=1, lora={"enabled": True}))
    acting = made.policy.model_copy(update={"dtype": "bfloat16"})
    grpo.learn(replace(made, policy=acting), WORLD, job(tmp_path))
    assert stored_dtype(tmp_path / "policy") == "float32"
    start, ended = (load(folder)[0].state_dict() for folder in (POLICY, tmp_path / "policy"))
    moved = [name for name, values in ended.items() if not torch.equal(values, start[name])]
    assert moved and any((ended[name] != ended[name].bfloat16().float()).any() for name in moved)


def test_canary_trl_calls_our_methods_as_expected() -> None:
    """A TRL release that moves a method that we override or rely on must fail here, not in a run."""
    import inspect

    from trl import GRPOConfig, GRPOTrainer

    assert "rollout_func" in inspect.signature(GRPOTrainer.__init__).parameters
    assert list(inspect.signature(GRPOTrainer._generate_and_score_completions).parameters) == ["self", "inputs"]
    scored = inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters
    assert list(scored)[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]
    source = inspect.getsource(GRPOTrainer._generate)
    assert 'extra_fields.pop("env_mask"' in source
    prepares = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "split_tensor_dict(generation_batch, self.args.steps_per_generation)" in prepares
    assert "inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]" in prepares
    assert {"steps_per_generation", "epsilon_high", "beta", "shuffle_dataset"} <= set(
        inspect.signature(GRPOConfig.__init__).parameters
    )

"""The vLLM policy's token bookkeeping, with transformers in place of vLLM. `tests/engine` runs vLLM."""

import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from coevolve.environments.registry import make
from coevolve.policies.transformers_policy import TransformersPolicy, end_tokens, load
from coevolve.policies.vllm_policy import TokenPrompt, VllmPolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests import POLICY, ROOT

MODEL, TOKENIZER = load(POLICY)


def complete(prompts: Sequence[TokenPrompt]) -> list[tuple[list[int], list[float]]]:
    """Greedy output in the form of ``vllm.LLM.generate``: ids with the end token, and their log-probabilities."""
    found = []
    for prompt in prompts:
        given = torch.tensor([prompt.ids])
        made = MODEL.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=prompt.max_tokens, do_sample=False,
            output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
        ids = made.sequences[0, given.shape[1] :].tolist()
        logs = [
            torch.log_softmax(step[0].float(), -1)[token].item() for step, token in zip(made.logits, ids, strict=True)
        ]
        found.append((ids, logs))
    return found


def test_vllm_policy_keeps_the_same_tokens_as_the_transformers_policy() -> None:
    world = make("miniworld")
    assignments = [RolloutRequest(task, 0) for task in world.tasks("validation")[:12]]
    limits = Limits(8, 256, 64, 60.0)
    policy = VllmPolicy(complete, TOKENIZER, end_tokens(MODEL.generation_config, TOKENIZER), 768)
    theirs = rollout(policy, world, assignments, limits)
    ours = rollout(TransformersPolicy(MODEL, TOKENIZER, 0.0), world, assignments, limits)
    assert [one.trajectory for one in theirs] == [one.trajectory for one in ours]
    for one, other in zip(theirs, ours, strict=True):
        for reply, same in zip(one.replies, other.replies, strict=True):
            assert (reply.prompt_ids, reply.token_ids) == (same.prompt_ids, same.token_ids)
            assert reply.logprobs == pytest.approx(same.logprobs, abs=1e-3)


def test_vllm_version_unsupported_by_trl_is_refused_before_loading(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").write_text("raise RuntimeError('loaded')")
    metadata = tmp_path / "vllm-0.32.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    (metadata / "top_level.txt").write_text("vllm\n")
    check = "from coevolve.policies.vllm_policy import require_vllm; require_vllm('policy.backend: vllm')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    ran = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True)
    last = ran.stderr.strip().splitlines()[-1]
    assert "policy.backend: vllm needs another version of vLLM (TRL currently supports vLLM versions from " in last
    assert "You have version 0.32.0); run `pip install 'coevolve[" in last


def test_canary_trl_has_the_vllm_parts_that_we_use() -> None:
    from trl import GRPOConfig, GRPOTrainer
    from trl.generation.vllm_client import VLLMClient
    from trl.generation.vllm_generation import VLLMGeneration

    generate = inspect.signature(VLLMClient.generate).parameters
    assert {"prompts", "n", "temperature", "max_tokens", "logprobs", "generation_kwargs"} <= set(generate)
    assert "base_url" in inspect.signature(VLLMClient.__init__).parameters
    assert hasattr(VLLMGeneration, "sync_weights")
    assert "self.llm = LLM(" in inspect.getsource(VLLMGeneration)
    source = inspect.getsource(GRPOTrainer)
    assert "self.vllm_generation = VLLMGeneration(" in source
    assert "self.state.global_step != self._last_loaded_step" in source
    wanted = {"use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_max_model_length", "vllm_server_base_url"}
    assert wanted <= set(inspect.signature(GRPOConfig.__init__).parameters)

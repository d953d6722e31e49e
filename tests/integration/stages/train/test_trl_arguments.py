"""A Qwen3 model through training, and a clear error for each setting that cannot work."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from coevolve.core import launch
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects
from coevolve.core.outcomes import metrics
from coevolve.core.task import Observation, Score
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import evaluate
from coevolve.stages.train import grpo, saving
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Job, Settings
from coevolve.stages.train.saving import COMPLETE
from coevolve.stages.train.trl_arguments import adapters, common
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession
from tests import POLICY
from tests.unit.policies.qwen import make_qwen3
from tests.unit.stages.train.small import CONFIG, PARAMS, WORLD, killed, outputs

ACTING = PARAMS.policy.model_copy(
    update={"max_turns": 3, "episode_tokens": 8192, "reply_tokens": 200, "template": {"enable_thinking": False}}
)


class ParitySession(MiniworldSession):
    """Rewards messages of even length, which random weights can write."""

    def reset(self, task: object) -> Observation:
        self.said = 0
        turn = super().reset(task)  # type: ignore[arg-type]
        return replace(turn, tools=(turn.tools or [])[:2])  # of a byte a token, schemas are long

    def say(self, text: str) -> Observation:
        self.said += len(text)
        return super().say(text)

    def score(self) -> Score:
        return Score(float(self.said % 2 == 0))


class Parity(Miniworld):
    def open(self) -> MiniworldSession:
        made = super().open()
        made.__class__ = ParitySession
        return made


def config(**changes: object) -> Train:
    lora = CONFIG.lora.model_copy(update={"enabled": True, "rank": 4, "targets": ["q_proj", "v_proj"]})
    update = {"steps": 2, "tasks_per_step": 2, "micro_batch": 4, "gradient_checkpointing": True, "schedule": "linear"}
    return CONFIG.model_copy(update={**update, "lora": lora, **changes})


def settings() -> Settings:
    return Settings(config(), ACTING, PARAMS.launch, PARAMS.learner.model_copy(update={"learning_rate": 0.01}))


def qwen_job(folder: Path, parent: Path) -> Job:
    return Job(
        0, 0, parent, WORLD.tasks("seed")[:4], folder / "policy", folder / "trajectories.parquet",
        folder / "metrics.jsonl", folder / "scratch", parent,
    )  # fmt: skip


def test_qwen3_trains_resumes_merges_and_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = make_qwen3(tmp_path / "qwen3", context=8192)
    grpo.learn(settings(), Parity(), qwen_job(tmp_path / "whole", parent))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(saving, "save", killed)  # as if it was killed when training was over
        grpo.learn(settings(), Parity(), qwen_job(tmp_path / "again", parent))
    assert len(list((tmp_path / "again/scratch").glob(f"checkpoint-*/{COMPLETE}"))) == 2
    assert load(tmp_path / "again/scratch/checkpoint-2")[0].peft_config, "a checkpoint is no policy"
    (tmp_path / f"again/scratch/checkpoint-2/{COMPLETE}").unlink()  # so that it resumes at step 1
    grpo.learn(settings(), Parity(), qwen_job(tmp_path / "again", parent))
    assert outputs(tmp_path / "again") == outputs(tmp_path / "whole")

    rows = [row for _, row in read_jsonl_objects(tmp_path / "whole/metrics.jsonl")]
    assert [row["step"] for row in rows] == [0, 1] and rows[0]["grad_norm"] > 0
    before, after = (load(path)[0] for path in (parent, tmp_path / "whole/policy"))
    assert type(after).__name__ == "Qwen3ForCausalLM"
    changed = {
        name.rsplit(".", 2)[1]
        for (name, one), other in zip(after.named_parameters(), before.parameters(), strict=True)
        if not torch.allclose(one, other, atol=1e-7)
    }
    assert changed == {"q_proj", "v_proj"}
    adapted = PeftModel.from_pretrained(before, tmp_path / "whole/policy/adapter").merge_and_unload()
    kept = saving.kept(adapted, parent, config().keep_base)
    for one, other in zip(after.parameters(), kept.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6), "the adapter that is kept is not the one that was merged"

    policy = TransformersPolicy(*load(tmp_path / "whole/policy"), 0.0, ACTING.template)
    panel = {"validation": WORLD.tasks("validation")[:3]}
    outcomes = evaluate(policy, Parity(), panel, Limits.of(ACTING), PARAMS.evaluate, 0)
    assert metrics(outcomes, PARAMS.evaluate, 0)["validation"].tasks == 3


def test_unknown_layer_is_an_error_that_lists_the_known_ones() -> None:
    model, _ = load(POLICY)
    lora = CONFIG.lora.model_copy(update={"enabled": True, "targets": ["q_proj", "query"]})
    with pytest.raises(CoevolveError, match=r"no layer query; it has: down_proj, gate_proj, .* v_proj, or all-linear"):
        adapters(lora, model)


def test_quantized_weights_need_adapters_and_bitsandbytes() -> None:
    model, _ = load(POLICY)
    with pytest.raises(CoevolveError, match=r"train.lora.quantize needs train.lora.enabled"):
        adapters(CONFIG.lora.model_copy(update={"quantize": "4bit"}), model)
    if not torch.cuda.is_available():
        with pytest.raises(CoevolveError, match=r"4bit needs a GPU and bitsandbytes; install it with `pip install"):
            load(POLICY, quantize="4bit")


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_missing_vllm_is_a_one_line_error(mode: str, tmp_path: Path) -> None:
    vllm = CONFIG.vllm.model_copy(update={"mode": mode})
    with pytest.raises(
        CoevolveError, match=rf"train.vllm.mode: {mode} needs vLLM, which is not installed; run `pip install"
    ):
        changed = replace(settings(), train=CONFIG.model_copy(update={"vllm": vllm}))
        grpo.learn(changed, WORLD, qwen_job(tmp_path, POLICY))


def test_missing_deepspeed_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "deepspeed" else found(name))
    with pytest.raises(CoevolveError, match=r"launch.sharding: zero2 needs DeepSpeed, which is not installed"):
        common(CONFIG, ACTING, PARAMS.launch.model_copy(update={"sharding": "zero2"}), tmp_path, 0, 0.01, 16)


def test_adapters_compute_in_the_type_of_the_policy(tmp_path: Path) -> None:
    acting = ACTING.model_copy(update={"dtype": "bfloat16"})
    for made in (config(), CONFIG):
        rounds = common(made, acting, PARAMS.launch, tmp_path, 0, 0.01, 16)["bf16"]
        assert rounds is (made.lora.enabled or torch.cuda.is_available())


def test_rows_that_processes_cannot_share_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    config = CONFIG.model_copy(update={"micro_batch": 3})
    words = r"train.tasks_per_step × train.group_size is 16, which 2 processes with train.micro_batch 3 cannot"
    with pytest.raises(CoevolveError, match=words):
        common(config, ACTING, PARAMS.launch, tmp_path, 0, 0.01, 16)
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(CoevolveError, match=r"warm.batch is 16, which 1 process with warm.micro_batch 3 cannot"):
        common(config, ACTING, PARAMS.launch, tmp_path, 0, 0.01, 16, "warm.batch")


def test_machine_outside_the_launch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(launch.MACHINE, "2")
    with pytest.raises(CoevolveError, match=r"COEVOLVE_MACHINE is 2, expected 0 to 1 \(launch.machines\)"):
        launch.spawn(PARAMS.launch.model_copy(update={"machines": 2}), "-c", "pass")

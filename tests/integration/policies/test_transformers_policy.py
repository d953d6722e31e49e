"""One KV cache for ragged, shrinking batches gives the same result as a plain forward pass over each episode."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from coevolve.core.errors import CoevolveError
from coevolve.core.trajectories import StopReason
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Episode, Limits, RolloutRequest, rollout
from tests import POLICY
from tests.unit.policies.qwen import make_qwen3
from tests.unit.stages.train.small import WORLD
from tests.waiting import PATIENCE

LIMITS = Limits(max_turns=8, episode_tokens=300, reply_tokens=64, max_seconds=PATIENCE)
MODEL, TOKENIZER = load(POLICY)


def played(temperature: float, count: int = 24, batch: int = 256, limits: Limits = LIMITS) -> list[Episode]:
    policy = TransformersPolicy(MODEL, TOKENIZER, temperature)
    tasks = [*WORLD.tasks("validation")[: count // 2], *WORLD.tasks("hard")[: count // 2]]
    requests = [RolloutRequest(task, seed) for seed, task in enumerate(tasks)]
    return rollout(policy, WORLD, requests, replace(limits, batch=batch))


def test_policy_bytes_do_not_depend_on_hub_access(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from coevolve.policies.transformers_policy import load\n"
        "for part in load(Path(sys.argv[1])): part.save_pretrained(sys.argv[2])"
    )
    saved = []
    for offline in ("0", "1"):  # read when transformers is imported
        folder = tmp_path / offline
        environment = {**os.environ, "HF_HUB_OFFLINE": offline}
        subprocess.run([sys.executable, "-c", code, str(POLICY), str(folder)], env=environment, check=True)
        saved.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert saved[0] == saved[1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_log_probabilities_equal_those_of_a_plain_forward_pass(temperature: float) -> None:
    for episode in played(temperature):
        ids: list[int] = []
        places: list[tuple[int, float]] = []
        for reply in episode.replies:
            ids += reply.prompt_ids
            places += [(len(ids) + row, value) for row, value in enumerate(reply.logprobs)]
            ids += reply.token_ids
        with torch.inference_mode():
            logprobs = torch.log_softmax(MODEL(torch.tensor([ids])).logits[0].float(), -1)
        for place, value in places:
            assert logprobs[place - 1, ids[place]].item() == pytest.approx(value, abs=2e-3)


def test_samples_depend_on_the_seed_and_not_on_the_batch() -> None:
    whole, parts = played(1.0), played(1.0, batch=7)
    same = sum(a.trajectory.messages == b.trajectory.messages for a, b in zip(whole, parts, strict=True))
    assert same >= len(whole) - 1  # a sum in another order may round another way
    assert [one.trajectory for one in played(1.0)] == [one.trajectory for one in whole]


def fed_to(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the later inputs of ``model``."""
    fed: list[tuple[int, ...]] = []
    forward = model.forward

    def counted(*arguments: object, **named: torch.Tensor) -> object:
        fed.append(tuple(named["input_ids"].shape))
        return forward(*arguments, **named)

    monkeypatch.setattr(model, "forward", counted)
    return fed


def attempts(policy: TransformersPolicy, each: int, limits: Limits = LIMITS) -> list[Episode]:
    tasks = [task for task in WORLD.tasks("validation")[:3] for _ in range(each)]
    return rollout(policy, WORLD, [RolloutRequest(task, seed) for seed, task in enumerate(tasks)], limits)


def assert_alike(shared: list[Episode], apart: list[Episode]) -> None:
    assert [one.trajectory for one in shared] == [one.trajectory for one in apart]
    for one, other in zip(shared, apart, strict=True):
        for reply, twin in zip(one.replies, other.replies, strict=True):
            assert reply.logprobs == pytest.approx(twin.logprobs, abs=1e-5)


def test_attempts_at_one_task_share_the_first_pass_over_its_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replies stay the same."""
    fed = fed_to(MODEL, monkeypatch)
    shared = attempts(TransformersPolicy(MODEL, TOKENIZER, 1.0), 4)
    assert fed[0][0] == 3 and {rows for rows, _ in fed[1:4]} == {12}
    monkeypatch.setattr(TransformersPolicy, "_begun", lambda self, fed: self._forward(*self._padded(fed)))
    fed.clear()
    apart = attempts(TransformersPolicy(MODEL, TOKENIZER, 1.0), 4)
    assert fed[0][0] == 12
    assert_alike(shared, apart)


def test_tasks_with_the_same_tools_share_the_first_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The replies stay the same. Nine tenths of a first prompt are tools here. No pass copies a frozen head for each row."""
    model, tokenizer = load(make_qwen3(tmp_path, context=16384))
    model.requires_grad_(False)  # as the weights below adapters
    limits = Limits(max_turns=2, episode_tokens=10000, reply_tokens=4, max_seconds=PATIENCE)
    with torch.profiler.profile(record_shapes=True) as profile:
        fed = fed_to(model, monkeypatch)
        shared = attempts(TransformersPolicy(model, tokenizer, 1.0), 2, limits)
        (rows, tools), (others, asked) = fed[:2]
        assert (rows, others) == (1, 3) and tools > 9 * asked and fed[2] == (6, 1)
        monkeypatch.setattr("coevolve.policies.transformers_policy.SHARED", 16384)
        fed.clear()
        apart = attempts(TransformersPolicy(model, tokenizer, 1.0), 2, limits)
        assert fed[0] == (3, tools + asked)
        assert_alike(shared, apart)
    assert {event.input_shapes[0][2] for event in profile.events() if event.name == "aten::bmm"} == {1}  # positions


def test_passes_of_a_large_model_leave_out_rows_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replies stay the same."""
    fed = fed_to(MODEL, monkeypatch)
    whole = attempts(TransformersPolicy(MODEL, TOKENIZER, 1.0), 4)
    rows = sum(count * width for count, width in fed)
    monkeypatch.setattr("coevolve.policies.transformers_policy.LARGE", 0)
    fed.clear()
    narrow = attempts(TransformersPolicy(MODEL, TOKENIZER, 1.0), 4)
    assert sum(count * width for count, width in fed) < 0.9 * rows
    assert_alike(narrow, whole)


def test_budget_and_context_end_an_episode() -> None:
    episodes = played(1.0, limits=Limits(8, 40, 64, 60.0))
    assert {one.trajectory.stop_reason for one in episodes} <= {StopReason.MAX_TOKENS, StopReason.DONE}
    for one in episodes:
        assert sum(len(reply.prompt_ids) + len(reply.token_ids) for reply in one.replies[:-1]) <= 40
        assert sum(len(reply.token_ids) for reply in one.replies) <= 40


@pytest.mark.parametrize("place", ["config.json", "tokenizer_config.json"])
def test_code_in_a_model_directory_does_not_run(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("builtins.input", lambda question="": "y")  # transformers would ask
    folder = tmp_path / "model"
    shutil.copytree(POLICY, folder)
    config = json.loads((folder / place).read_text())
    code = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM"), "evil.Evil") | {"AutoTokenizer": [None, "evil.Evil"]}
    known = {"model_type": "evil", "tokenizer_class": "Evil", "auto_map": code}
    (folder / place).write_text(json.dumps({**config, **known}))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(CoevolveError, match="expected a transformers model directory"):
        load(folder)
    assert not (tmp_path / "ran").exists() and "custom code" not in capsys.readouterr().out


def test_model_that_does_not_fit_is_refused_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    size = (POLICY / "model.safetensors").stat().st_size
    free = SimpleNamespace(available=3 * size)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    load(POLICY)
    load(POLICY, dtype="bfloat16", copies=4)
    with pytest.raises(CoevolveError, match=r"for 4 times its weights in float32, .*train.lora.enabled: true"):
        load(POLICY, copies=4)
    free.available = size // 2
    with pytest.raises(CoevolveError, match="a smaller model"):
        load(POLICY)

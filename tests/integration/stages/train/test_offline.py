"""Learning from recorded episodes on the committed tiny policy: targets, losses and a killed run."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from trl import DPOTrainer

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects
from coevolve.core.trajectories import StopReason, read_trajectories
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.loading import playing
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.pairs.stage import Made, make
from coevolve.stages.train import dpo, sft, shared_prefix
from coevolve.stages.train.config import Dpo
from coevolve.stages.train.grpo import row as sampled
from coevolve.stages.train.learner import Job, Log
from coevolve.stages.train.learners import LEARNERS
from coevolve.stages.train.offline import Batch, scheduled, tokenized
from coevolve.stages.train.reference_tokens import Example, Tokens, tokens
from tests import POLICY
from tests.unit.stages.train.small import ACTING, CONFIG, PARAMS, WORLD, changed, job, outputs, settings, stop_at

LIMITS = Limits.of(ACTING)
WAYS = ["dpo", "sft"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    play = partial(playing, config=ACTING, temperature=CONFIG.temperature)
    folder = tmp_path_factory.mktemp("rehearsal")
    rehearsal = Rehearsal(0, 0, WORLD.tasks("seed")[:16], [], folder, WORLD, LIMITS, play)
    return make(POLICY, rehearsal, CONFIG, PARAMS.pairs)


def offline(folder: Path, made: Made) -> Job:
    return replace(job(folder), pairs=made.pairs, rehearsals=made.rehearsals, references=made.references)


def run(name: str, folder: Path, made: Made, log: Log | None = None, **changes: object) -> None:
    LEARNERS.find(name, "learn")(settings(changed(learner=name, **changes)), WORLD, offline(folder, made), log)


def test_episode_equals_the_sampled_tokens() -> None:
    model, tokenizer = load(POLICY)
    tasks = WORLD.tasks("seed")[:12]
    short = Limits(3, 256, 10, LIMITS.max_seconds)  # so that some end in the middle of a reply
    policy = TransformersPolicy(model, tokenizer, 1.0)
    episodes = rollout(policy, WORLD, [RolloutRequest(task, seed) for seed, task in enumerate(tasks * 2)], short)
    renderer, offered = Renderer(tokenizer), WORLD.open()
    ends = set()
    for one in episodes:
        tools = offered.reset(next(task for task in tasks if task.task_id == one.trajectory.task_id)).tools or []
        want, found = sampled(one, None, tokenizer.eos_token_id), tokens(renderer, tools, one.trajectory)
        assert (found.prompt, found.completion, found.mask) == (want.prompt, want.completion, want.mask)
        ends.add(one.trajectory.stop_reason)
    assert {StopReason.MAX_TOKENS, StopReason.MAX_TURNS} <= ends


def pairs_of(made: Made, folder: Path) -> list[Example]:
    _, tokenizer = load(POLICY)
    return list(tokenized(offline(folder, made), WORLD, Renderer(tokenizer), ACTING.episode_tokens))


def by_hand(model: torch.nn.Module, one: Tokens) -> tuple[torch.Tensor, int]:
    """The sum and the number of log-probabilities of the agent's tokens. One sequence, no padding."""
    ids = torch.tensor([one.prompt + one.completion])
    logps = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1).gather(-1, ids[0, 1:, None])[:, 0]
    mask = torch.tensor(([0] * len(one.prompt) + one.mask)[1:])
    return (logps * mask).sum(), int(mask.sum())


def gradient(loss: torch.Tensor, model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize("worth", [shared_prefix.WORTH, 0])
@pytest.mark.parametrize("name", WAYS)
def test_loss_covers_the_agents_tokens(
    name: str, worth: int, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRL's loss and gradient at a step, against a plain computation over each sequence by itself: by plain passes and by
    shared prefixes, however short.
    """
    monkeypatch.setattr(shared_prefix, "WORTH", worth)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    trainer = {"dpo": dpo.MaskedDPO, "sft": sft.EpisodeSFT}[name]
    compute = trainer.compute_loss

    def watched(
        self: object, model: torch.nn.Module, inputs: dict[str, torch.Tensor], *rest: object, **more: object
    ) -> object:
        for one in model.parameters():  # at the first step policy and reference are one, and every margin 0
            one.data.add_(1e-3 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel())))
        loss = compute(self, model, inputs, *rest, **more)
        seen.append((loss.detach(), gradient(loss, model)))
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "compute_loss", watched)
    with pytest.raises(KeyboardInterrupt):
        run(name, tmp_path, made, steps=1, micro_batch=8)
    ((loss, slope),) = seen
    rows = scheduled(pairs_of(made, tmp_path), Batch(8, "its size"), changed(steps=1), job(tmp_path))
    assert any(0 in one.chosen.mask for one in rows), "there is something to mask"
    model, _ = load(POLICY)
    fixed, _ = load(POLICY)
    for one in model.parameters():
        one.data.add_(1e-3 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel())))
    right = [by_hand(model, one.chosen) for one in rows]
    likelihood = -torch.stack([logps for logps, _ in right]).sum() / sum(count for _, count in right)
    wanted = likelihood
    if name != "sft":
        margins = [
            by_hand(model, chosen)[0] - by_hand(model, rejected)[0]
            - (by_hand(fixed, chosen)[0] - by_hand(fixed, rejected)[0])
            for chosen, rejected in rows
        ]  # fmt: skip
        own = PARAMS.learners["dpo"]
        assert isinstance(own, Dpo)
        preferred = -torch.nn.functional.logsigmoid(own.beta * torch.stack(margins)).mean()
        wanted = preferred + own.sft_weight * likelihood
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-5)
    assert torch.allclose(slope, gradient(wanted, model), atol=1e-5)


def test_trl_still_prepares_rows_in_the_method_that_we_override() -> None:
    assert "_prepare_dataset" in vars(DPOTrainer)


@pytest.mark.parametrize("name", WAYS)
def test_killed_run_ends_with_the_same_bytes(name: str, made: Made, tmp_path: Path) -> None:
    run(name, tmp_path / "whole", made)
    with pytest.raises(KeyboardInterrupt):
        run(name, tmp_path / "killed", made, stop_at(1))
    run(name, tmp_path / "killed", made)
    assert outputs(tmp_path / "killed") == outputs(tmp_path / "whole")
    rows = [row for _, row in read_jsonl_objects(tmp_path / "whole/metrics.jsonl")]
    assert [row["step"] for row in rows] == [0, 1, 2] and all(row["groups"] == CONFIG.tasks_per_step for row in rows)
    assert read_trajectories(tmp_path / "whole/trajectories.parquet") == list(made.rehearsals)
    if name != "sft":
        assert rows[0]["margin"] == 0.0 < rows[-1]["margin"] and rows[-1]["accuracy"] > 0.5


def test_adapters_are_compared_with_the_weights_below_them(made: Made, tmp_path: Path) -> None:
    run("dpo", tmp_path, made, steps=2, lora={"enabled": True})
    rows = [row for _, row in read_jsonl_objects(tmp_path / "metrics.jsonl")]
    assert rows[0]["margin"] == 0.0 != rows[1]["margin"]
    assert load(tmp_path / "policy")[0]


def test_fewer_pairs_than_a_step_needs_is_a_one_line_error(made: Made, tmp_path: Path) -> None:
    few = replace(made, pairs=made.pairs[:3])
    with pytest.raises(CoevolveError, match=r"a step takes 8 pairs \(.*\), but only 3 of 3 pairs fit"):
        run("dpo", tmp_path, few)

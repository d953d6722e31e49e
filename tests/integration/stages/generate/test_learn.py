"""Reward-weighted regression of a small generator: loss against a plain computation, leash, and a killed run."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from trl import SFTTrainer

from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.transformers_policy import load
from coevolve.stages.generate import learn as learning
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.learn import Lesson, WeightedSFT, drawn, learn, row
from coevolve.stages.generate.spec import Spec
from tests.unit.stages.generate.small import OWN, TOOLS, job, shared
from tests.unit.stages.train.small import outputs

LESSONS = [
    Lesson([{"role": "user", "content": f"vary {Spec((one,))}"}], str(Spec((other,))), 0.1 + number % 5)
    for number, (one, other) in enumerate(zip(TOOLS.goals, TOOLS.goals[1:], strict=False))
]


def run(folder: Path, first: Path, own: Generate = OWN) -> list[dict[str, float]]:
    return learn(LESSONS, LESSONS, own, shared(own), job(folder, first))


def moved(model: torch.nn.Module) -> None:
    for one in model.parameters():  # at the first step both generators are one, and their divergence 0
        one.data.add_(1e-2 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel())))


def logps(model: torch.nn.Module, lesson: Lesson, renderer: Renderer) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities over the vocabulary at each token of a generation, and these tokens. No padding."""
    prompt, reply = renderer.first(lesson.messages, []), renderer.reply(lesson.text)
    logits = model(input_ids=torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits, -1), torch.tensor(reply)


def by_hand(
    model: torch.nn.Module, fixed: torch.nn.Module, lessons: Sequence[Lesson], renderer: Renderer
) -> torch.Tensor:
    told, weight, far, count = torch.zeros(()), 0.0, torch.zeros(()), 0
    for one in lessons:
        own, said = logps(model, one, renderer)
        first = logps(fixed, one, renderer)[0].detach()
        told = told - one.weight * own.gather(-1, said[:, None]).sum()
        weight += one.weight * len(said)
        far = far + (own.exp() * (own - first)).sum()
        count += len(said)
    return told / weight + OWN.kl * far / count


def test_loss_is_weighted_likelihood_plus_divergence(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.Tensor, list[torch.Tensor]]] = []
    compute = WeightedSFT.compute_loss

    def watched(self: WeightedSFT, model: torch.nn.Module, inputs: dict[str, torch.Tensor], *rest: object) -> None:
        moved(model)
        loss = compute(self, model, inputs)
        seen.append((loss.detach(), list(torch.autograd.grad(loss, list(model.parameters())))))
        raise KeyboardInterrupt

    monkeypatch.setattr(WeightedSFT, "compute_loss", lambda self, model, inputs, *a, **k: watched(self, model, inputs))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, first)
    ((loss, slope),) = seen
    model, tokenizer = load(first)
    fixed, _ = load(first)
    moved(model)
    wanted = by_hand(model, fixed, drawn(LESSONS, OWN, job(tmp_path, first))[: OWN.batch], Renderer(tokenizer))
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-5)
    for one, other in zip(slope, torch.autograd.grad(wanted, list(model.parameters())), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_generated_text_is_a_target_and_the_prompt_is_not(first: Path) -> None:
    _, tokenizer = load(first)
    found = row(LESSONS[0], Renderer(tokenizer))
    labels = found["labels"]
    assert isinstance(labels, list) and found["weight"] == LESSONS[0].weight
    own = [token for token in labels if token != learning.IGNORED]
    assert tokenizer.decode(own) == LESSONS[0].text + tokenizer.eos_token


def test_trl_still_calls_the_method_that_we_override() -> None:
    assert "compute_loss" in vars(SFTTrainer)


def test_killed_update_ends_with_the_same_bytes(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tmp_path / "whole", first)
    assert [one["step"] for one in whole] == [0, 1, 2, 3]
    assert whole[0]["kl"] == 0.0 < whole[0]["spec_kl"] < whole[-1]["spec_kl"]
    end = learning.SpecKLLimit.on_step_end

    def killed(self: learning.SpecKLLimit, args: object, state: object, *rest: object, **more: object) -> None:
        end(self, args, state, *rest, **more)
        if state.global_step == 3:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(learning.SpecKLLimit, "on_step_end", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed", first)
    assert run(tmp_path / "killed", first) == whole
    assert outputs(tmp_path / "killed/learned") == outputs(tmp_path / "whole/learned")


def far(model: Path, first: Path) -> float:
    """Divergence in nats per spec, computed separately."""
    own, tokenizer = load(model)
    fixed, renderer = load(first)[0], Renderer(tokenizer)
    total = 0.0
    with torch.no_grad():
        for one in LESSONS:
            ours, theirs = logps(own, one, renderer)[0], logps(fixed, one, renderer)[0]
            total += float((ours.exp() * (ours - theirs)).sum())
    return total / len(LESSONS)


def test_leash_keeps_the_weights_before_the_step_that_exceeds_it(first: Path, tmp_path: Path) -> None:
    free = run(tmp_path / "free", first)
    cap = (free[1]["spec_kl"] + free[2]["spec_kl"]) / 2
    held = run(tmp_path / "held", first, OWN.model_copy(update={"max_kl": cap}))
    assert held == free[:2], "the figures are of the steps whose weights stay"
    assert far(tmp_path / "held/learned", first) == pytest.approx(free[1]["spec_kl"], rel=1e-3)
    assert far(tmp_path / "free/learned", first) == pytest.approx(free[3]["spec_kl"], rel=1e-3)
    none = run(tmp_path / "none", first, OWN.model_copy(update={"max_kl": 1e-9}))
    assert none == [] and far(tmp_path / "none/learned", first) == pytest.approx(0.0, abs=1e-6)


def test_heavier_generation_becomes_likelier(first: Path, tmp_path: Path) -> None:
    own = OWN.model_copy(update={"steps": 8, "kl": 0.0, "learning_rate": 3e-3, "max_kl": 100.0})
    messages = LESSONS[0].messages
    better, worse = (Lesson(messages, str(Spec((name,))), weight) for name, weight in (("pay", 5.0), ("lock", 0.01)))
    learn([better, worse], [better], own, shared(own), job(tmp_path, first))
    before, tokenizer = load(first)
    after, renderer = load(tmp_path / "learned")[0], Renderer(tokenizer)

    def chance(model: torch.nn.Module, one: Lesson) -> float:
        own, said = logps(model, one, renderer)
        return own.gather(-1, said[:, None]).sum().item()

    gained = [chance(after, one) - chance(before, one) for one in (better, worse)]
    assert gained[0] > 1.0 and gained[0] > gained[1]

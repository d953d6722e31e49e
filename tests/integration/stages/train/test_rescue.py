"""Imitating the references of tasks that were never solved: what is added to a step, by hand, and what comes of it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.io import read_jsonl_objects
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Limits
from coevolve.stages.train import grpo
from coevolve.stages.train.learner import Job, Log
from coevolve.stages.train.reference_tokens import Tokens
from coevolve.stages.train.rescue import References, dealt
from tests import ROOT
from tests.unit.stages.train.small import ACTING, WORLD, changed, job, outputs, settings

ROOM = ACTING.model_copy(update={"max_turns": 16, "episode_tokens": 768})
HARD = [task for task in WORLD.tasks("hard") if len(task.calls) > 6][:4]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.lists(st.booleans(), min_size=1, max_size=6)), max_size=9),
    st.integers(1, 5),
)
def test_every_row_counts_once_and_every_pass_has_as_many(drawn: list[tuple[int, list[bool]]], parts: int) -> None:
    rows = [
        Tokens([10 * n + 1] * prompt, [10 * n + 2] * len(mask), [1, *map(int, mask[1:])])
        for n, (prompt, mask) in enumerate(drawn)
    ]
    passes = [dealt(rows, part, parts, 0) for part in range(parts)]
    if not rows:
        assert passes == [None] * parts
        return
    found = []
    for one in passes:
        assert one and one.ids.shape == one.mask.shape and one.generated.shape[1] == one.ids.shape[1] - one.prompt
        assert len(one.ids) == len(passes[0].ids)  # type: ignore[union-attr]
        for ids, mask, own, weight in zip(one.ids, one.mask, one.generated, one.weights, strict=True):
            prompt = [int(x) for x, there in zip(ids[: one.prompt], mask[: one.prompt], strict=True) if there]
            after = [int(x) for x, there in zip(ids[one.prompt :], mask[one.prompt :], strict=True) if there]
            if weight:
                found.append(Tokens(prompt, after, [int(x) for x in own[: len(after)]]))
            assert not own[len(after) :].any()
    assert found == rows


def test_the_term_is_the_mean_likelihood_of_what_the_agent_would_have_said() -> None:
    model, tokenizer = load(ROOT / "policies/base")
    rows = References(WORLD, Renderer(tokenizer), Limits.of(ROOM)).of(HARD)
    assert len(rows) == len(HARD)
    laid = dealt(rows, 0, 1, tokenizer.eos_token_id)
    assert laid
    output = model(input_ids=laid.ids, attention_mask=laid.mask).logits.log_softmax(-1)
    logps = output[:, :-1].gather(-1, laid.ids[:, 1:, None])[:, laid.prompt - 1 :, 0]
    wanted = []
    for row in rows:
        ids = torch.tensor([row.prompt + row.completion])
        alone = (
            model(input_ids=ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None])[len(row.prompt) - 1 :, 0]
        )
        wanted.append(-sum(x for x, own in zip(alone, row.mask, strict=True) if own) / sum(row.mask))
    assert laid.loss(logps.detach()).item() == pytest.approx(sum(float(one.detach()) for one in wanted), rel=1e-4)


def run(folder: Path, weight: float, log: Log | None = None) -> None:
    config = changed(steps=2, tasks_per_step=4, group_size=8)
    own = settings(config, rescue=weight, refill_rounds=0, learning_rate=0.001)
    one: Job = replace(job(folder), tasks=HARD)
    grpo.learn(replace(own, policy=ROOM), WORLD, one, log)


def likelihood(folder: Path) -> float:
    """Of the references, a token."""
    model, tokenizer = load(folder)
    rows = References(WORLD, Renderer(tokenizer), Limits.of(ROOM)).of(HARD)
    laid = dealt(rows, 0, 1, tokenizer.eos_token_id)
    assert laid
    with torch.no_grad():
        output = model(input_ids=laid.ids, attention_mask=laid.mask).logits.log_softmax(-1)
    return -laid.loss(output[:, :-1].gather(-1, laid.ids[:, 1:, None])[:, laid.prompt - 1 :, 0]).item() / len(rows)


def test_what_is_never_solved_becomes_likelier_and_all_processes_and_kills_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "alone", 0.0)
    run(tmp_path / "rescued", 1.0)
    rows = [row for _, row in read_jsonl_objects(tmp_path / "rescued/metrics.jsonl")]
    assert all(row["rescued"] >= 2 for row in rows), "these tasks are too hard"
    assert not any("rescued" in row for _, row in read_jsonl_objects(tmp_path / "alone/metrics.jsonl"))
    before, after = likelihood(tmp_path / "alone/policy"), likelihood(tmp_path / "rescued/policy")
    assert after > before + 0.05

    def stop(step: int, figures: dict[str, float]) -> None:
        if step == 0:
            raise KeyboardInterrupt

    monkeypatch.setenv("COEVOLVE_PROCESSES", "2")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed", 1.0, stop)
    run(tmp_path / "killed", 1.0)
    assert outputs(tmp_path / "killed") == outputs(tmp_path / "rescued")

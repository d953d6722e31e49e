"""Rows that share a prefix give the same log-probabilities and gradients as plain passes, from fewer tokens."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, MistralConfig, Qwen3Config

from coevolve.stages.train import shared_prefix
from coevolve.stages.train.learner import noted
from coevolve.stages.train.shared_prefix import levels_of, share_prefixes, unshareable
from tests.unit.stages.train.small import PARAMS, changed

WORDS = 50


def tiny(**changes: Any) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=WORDS,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        **changes,
    )
    return AutoModelForCausalLM.from_config(config).train()


def rows_of(groups: list[list[int]], tools: int, seed: int) -> list[list[int]]:
    """Rows that begin with ``tools`` common tokens. A group is a task of 20 tokens with attempts of these lengths."""
    rng = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        return torch.randint(0, WORDS, (count,), generator=rng).tolist()

    common = words(tools)
    return [common + task + words(length) for group in groups for task in [words(20)] for length in group]


def batch(rows: list[list[int]], prompt: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, rows × columns. The first ``prompt`` tokens of each row end at one column (padding both sides)."""
    longest = max(len(row) - prompt for row in rows)
    ids = torch.zeros((len(rows), 3 + prompt + longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, 3 : 3 + len(row)] = torch.tensor(row)
        mask[index, 3 : 3 + len(row)] = 1
    return ids, mask


def passed(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Log-probabilities of the present tokens, and the gradients of their mean."""
    model.zero_grad()
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.log_softmax(-1)
    logps = logits[:, :-1].gather(2, ids[:, 1:, None])[..., 0] * (mask[:, 1:] * mask[:, :-1])
    logps.mean().backward()
    return logps.detach(), [parameter.grad.clone() for parameter in model.parameters()]


def counted(model: Any) -> list[int]:
    """The number of tokens in each later call of the body of ``model``."""
    sizes: list[int] = []
    plain = model.base_model.forward

    def forward(input_ids: Any = None, **others: Any) -> Any:
        sizes.append(input_ids.numel())
        return plain(input_ids=input_ids, **others)

    model.base_model.forward = forward
    return sizes


@pytest.mark.parametrize("groups", [[[5, 9, 30], [12, 3]], [[4, 4, 4, 4]], [[7], [9], [30]], [[40, 1, 2], [8]]])
def test_log_probabilities_and_gradients_equal_those_of_the_plain_pass(groups: list[list[int]]) -> None:
    ids, mask = batch(rows_of(groups, tools=130, seed=1), prompt=150)
    model = tiny()
    logps, gradients = passed(model, ids, mask)
    sizes = counted(model)
    share_prefixes(model)
    shared_logps, shared_gradients = passed(model, ids, mask)
    assert len(sizes) > 2, "the prefix is a pass of its own"
    torch.testing.assert_close(shared_logps, logps, atol=1e-5, rtol=0)
    for shared, plain in zip(shared_gradients, gradients, strict=True):
        torch.testing.assert_close(shared, plain, atol=1e-6, rtol=1e-4)


def test_attempts_compute_only_their_own_tokens() -> None:
    ids, mask = batch(rows_of([[30] * 8, [30] * 8], tools=500, seed=2), prompt=520)
    model = tiny()
    sizes = counted(model)
    share_prefixes(model)
    with torch.no_grad():
        passed_once = model(input_ids=ids, attention_mask=mask, use_cache=False)
        assert passed_once.logits.shape[:2] == ids.shape
        sizes.clear()
        model(input_ids=ids, attention_mask=mask, use_cache=False)
    assert sum(sizes) <= 500 + 2 * 22 + 16 * 32 < ids.numel() / 8


@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(0, 150),
    st.integers(0, 5),
)
def test_segments_make_up_each_row(groups: list[list[int]], tools: int, seed: int) -> None:
    rows = rows_of(groups, tools, seed)
    levels = levels_of(rows)
    for row, tokens in enumerate(rows):
        made: list[int] = []
        parent = 0
        for number, level in enumerate(levels):
            segment = level.rows[row]
            assert number == 0 or level.parents[segment] == parent
            made += level.segments[segment]
            assert level.segments[segment], "a level without a token of a row cannot be computed"
            parent = segment
        assert made == tokens
    assert sum(len(segment) for level in levels for segment in level.segments) <= sum(map(len, rows))


def test_on_request_sharing_needs_the_columns_to_keep() -> None:
    """A trainer with short prompts takes plain passes, even if attempts share a long beginning."""
    ids, mask = batch(rows_of([[5, 9]], tools=130, seed=4), prompt=150)
    model = tiny()
    sizes = counted(model)
    share_prefixes(model, on_request=True)
    model.base_model(input_ids=ids, attention_mask=mask)
    assert len(sizes) == 1
    model.base_model(input_ids=ids, attention_mask=mask, keep=7)
    assert len(sizes) > 2


def test_generation_and_unshareable_models_compute_as_before() -> None:
    ids, mask = batch(rows_of([[5, 9]], tools=130, seed=5), prompt=150)
    windowed = AutoModelForCausalLM.from_config(
        MistralConfig(vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=1, sliding_window=16)
    )
    assert "sliding" in unshareable(windowed)
    assert "drops units" in unshareable(tiny(attention_dropout=0.1))
    assert unshareable(tiny()) == ""
    before = windowed(input_ids=ids, attention_mask=mask).logits
    share_prefixes(windowed)
    assert torch.equal(windowed(input_ids=ids, attention_mask=mask).logits, before)
    model = tiny().eval()
    before = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=4, do_sample=False)
    share_prefixes(model)
    assert torch.equal(model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=4, do_sample=False), before)


def in_type(precision: str) -> tuple[Any, Any]:
    """A model whose passes compute in ``precision``, and the context of its passes."""
    model = tiny(initializer_range=0.5)  # so that a token depends on those before it
    if precision == "bfloat16":
        return model.to(torch.bfloat16), nullcontext()
    return model, torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else nullcontext()


@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
def test_rounding_of_a_coarse_type_does_not_end_training(precision: str) -> None:
    ids, mask = batch(rows_of([[9] * 6, [9] * 6], tools=130, seed=6), prompt=150)
    model, context = in_type(precision)
    sizes = counted(model)
    share_prefixes(model)
    with context:
        model(input_ids=ids, attention_mask=mask)
    assert len(sizes) > 2, "the pass did not share"


@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
def test_wrong_shared_pass_falls_back_to_plain_passes_and_is_noted(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The self-check notices attention to keys of another segment, through the rounding of a coarse type too."""
    ids, mask = batch(rows_of([[9] * 6, [9] * 6], tools=130, seed=6), prompt=150)
    right = shared_prefix._selected
    monkeypatch.setattr(shared_prefix, "_selected", lambda cache, segments: right(cache, segments * 0))
    model, context = in_type(precision)
    noted()
    with context:
        plain = model(input_ids=ids, attention_mask=mask).logits
        sizes = counted(model)
        share_prefixes(model)
        assert torch.equal(model(input_ids=ids, attention_mask=mask).logits, plain)
        sizes.clear()
        assert torch.equal(model(input_ids=ids, attention_mask=mask).logits, plain)
    (note,) = noted()
    assert "log-probabilities differ from the plain pass by" in note
    assert sizes == [ids.numel()] and noted() == []


@pytest.mark.parametrize("precision", ["autocast", "bfloat16"])
def test_rows_of_equal_length_do_not_make_the_check_stricter(precision: str) -> None:
    """A pass for each row gives the bits of one pass over all then, so the rounding that the check measures is 0."""
    ids, mask = batch(rows_of([[9] * 8], tools=130, seed=7), prompt=150)
    model, context = in_type(precision)
    noted()
    share_prefixes(model)
    with context:
        model(input_ids=ids[:, 3:], attention_mask=mask[:, 3:])
    assert noted() == []


@pytest.mark.parametrize(
    ("changes", "sharding", "said"),
    [
        ({"gradient_checkpointing": True}, "none", "train.gradient_checkpointing does not allow it"),
        ({}, "zero3", "launch.sharding: zero3 does not allow it"),
        ({}, "none", ""),
    ],
)
def test_obstacle_to_sharing_is_reported_in_one_line(
    changes: dict[str, Any], sharding: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = changed(**changes)
    launch = PARAMS.launch.model_copy(update={"sharding": sharding})
    assert shared_prefix.prepare_passes(tiny(), None, config, launch) == (not said)
    assert capsys.readouterr().out == (f"training passes do not share prefixes: {said}\n" if said else "")

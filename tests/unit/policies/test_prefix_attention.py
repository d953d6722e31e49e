"""Attention to a prefix that is stored once equals attention to all keys."""

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AutoModelForCausalLM, MistralConfig

from coevolve.policies.prefix_attention import NAME, attending, attends, obstacle
from coevolve.policies.transformers_policy import load
from tests import POLICY

WIDTH = 8


@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 20), st.integers(0, 6), st.booleans(),
    st.sampled_from([torch.float32, torch.bfloat16]),
)  # fmt: skip
def test_prefix_attention_equals_attention_to_all_keys(
    rows: int, groups: int, heads: int, tokens: int, before: int, held: int, padded: bool, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(rows + 7 * before + 31 * held)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    query = values(rows, groups * heads, tokens, WIDTH)
    prefix = values(1, groups, before, WIDTH), values(1, groups, before, WIDTH)
    own = values(rows, groups, held + tokens, WIDTH), values(rows, groups, held + tokens, WIDTH)
    visible = torch.ones((rows, 1, tokens, held + tokens), dtype=torch.bool).tril(held)
    if padded:
        visible[0, :, :, : held + 1] = False  # the first row has no token of its own yet, and its first one is padding
    keys, all_values = (
        torch.cat([shared.expand(rows, -1, -1, -1), rest], 2).repeat_interleave(heads, 1)
        for shared, rest in zip(prefix, own, strict=True)
    )
    mask = torch.cat([torch.ones((rows, 1, tokens, before), dtype=torch.bool), visible], 3)
    expected = scaled_dot_product_attention(query, keys, all_values, attn_mask=mask, scale=0.3).transpose(1, 2)
    with attending([prefix]):
        result, _ = AttentionInterface()[NAME](
            SimpleNamespace(layer_idx=0), query, *own, visible if padded else None, scaling=0.3
        )
    assert result.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2  # bfloat16 has 8 bits
    torch.testing.assert_close(result, expected, atol=tolerance, rtol=tolerance)


def test_sliding_window_model_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(
        MistralConfig(vocab_size=9, hidden_size=32, intermediate_size=64, num_hidden_layers=1, sliding_window=16)
    )
    assert "sliding" in obstacle(model) and not attends(model)
    tiny, _ = load(POLICY)
    assert not obstacle(tiny) and attends(tiny)

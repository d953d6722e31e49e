"""Attention to a prefix that all rows of a batch share, which keeps the prefix's keys and values once instead of once per row.

The softmax over all keys is a weighted mean of the softmax over the prefix and the softmax over a row's own keys. The weights
are the sums of exponentials of both parts. So the rows' queries meet the prefix in one matrix product per head. Compare
Hydragen (arXiv 2402.05099, section 3) and cascade attention in FlashInfer and vLLM.

It runs only on a CPU, because torch returns the logarithm of that sum only there. Heads that share keys (grouped queries) count as
more queries of one head. Transformers' own attention copies the keys for each of these heads.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "coevolve_prefix"
Prefix = Sequence[tuple[torch.Tensor, torch.Tensor]]  # by layer, keys and values: 1 × heads × tokens × width
_prefix: ContextVar[Prefix | None] = ContextVar("prefix", default=None)


def obstacle(model: Any) -> str:
    """The reason why rows of the causal LM ``model`` cannot share the keys and values of a prefix; empty if they can."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        return f"its layers are of the kinds {', '.join(sorted(kinds))}"
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return "its attention has a sliding window"
    if getattr(model, "_is_stateful", False):
        return "it keeps a state besides keys and values"
    return ""


def attends(model: Any) -> bool:
    """Whether ``model`` can attend to a shared prefix. If so, `attending` affects it from now on."""
    config = model.config.get_text_config()
    if config._attn_implementation == "sdpa" and model._supports_attention_backend and not obstacle(model):
        model.set_attn_implementation(NAME)
    return bool(config._attn_implementation == NAME) and model.device.type == "cpu"


@contextmanager
def attending(prefix: Prefix | None) -> Iterator[None]:
    """Passes in the block attend to ``prefix`` before the rows' own keys. Positions count its tokens, masks do not."""
    token = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(token)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function for transformers. Queries: rows × heads × tokens × width. Result: rows × tokens × heads × width."""
    prefix = _prefix.get()
    if prefix is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)[0], None
    rows, heads, tokens, width = query.shape
    groups = key.shape[1]
    grouped = query.reshape(rows, groups, -1, width)  # the heads of a group follow one another, as further tokens
    if attention_mask is None and tokens > 1:
        attention_mask = torch.ones((1, 1, tokens, key.shape[2]), dtype=torch.bool).tril(key.shape[2] - tokens)
    mask = None
    if attention_mask is not None:
        # 0 or the least number: with minus infinity, padding without a key would give NaN
        bias = torch.zeros(attention_mask.shape, dtype=query.dtype)
        bias = bias.masked_fill(~attention_mask, torch.finfo(query.dtype).min)
        mask = bias.repeat(1, 1, heads // groups, 1)
    here, here_sum = _flash(grouped, key, value, mask, scaling)
    keys, values = prefix[module.layer_idx]
    before, before_sum = _flash(grouped.transpose(0, 1).reshape(1, groups, -1, width), keys, values, None, scaling)
    before = before.reshape(groups, rows, -1, width).transpose(0, 1)
    before_sum = before_sum.reshape(groups, rows, -1).transpose(0, 1)
    weight = torch.sigmoid(before_sum - here_sum)[..., None]
    mixed = (here + (before - here) * weight).to(query.dtype)  # the sums are float32 for keys of any type
    return mixed.reshape(rows, heads, tokens, width).transpose(1, 2).contiguous(), None


def _flash(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    output, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, attn_mask=mask, scale=scale
    )
    return output, logsumexp


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)

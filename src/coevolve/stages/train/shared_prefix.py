"""A trick for speed: training passes compute tokens that several rows begin with once, with gradients.

Most tokens of an agent's row are its prompt, the tools and the task, and rows of one pass share both. So a pass runs in up to
three levels: the prefix that rows with the same tools share, the longer prefix that attempts at the same task share, and the
rest of each row. Each level attends to the keys and values of the levels before it. Causal attention makes this exact: a
token's hidden state depends only on the tokens before it. Log-probabilities differ from the plain pass by rounding.

Compare Unsloth's shared-prefix path for GRPO, AReaL's tree training, and prefix-grouper (arXiv 2506.05433).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache
from transformers.modeling_outputs import BaseModelOutputWithPast

from coevolve.core.launch import Launch, is_main
from coevolve.policies.prefix_attention import obstacle
from coevolve.stages.train.config import Optimizer
from coevolve.stages.train.learner import doubts

WORTH = 64  # tokens that sharing must save per row, on average: short prompts of short rows do not pay for more calls
LEAST = 16  # tokens that each level must save per row
SIMILAR = 0.9  # shortest row of a batch, as a share of its longest: padding costs more than another call
CHECKED = 4  # rows of the self-check
# A pass in another order rounds otherwise: by about 1e-5 per log-probability in float32 (1e-4 at the longest rows that were
# tried). So the self-check measures what another order does to the plain pass, and allows this often.
TIMES = 4.0
# Allowed in any case, the second in roundings (eps) of the type: rows of equal length come out of one pass as of a pass for each
# row, to the bit, so the measure says 0. In bfloat16 right passes differ by 0.014 to 0.022 (mean) and 0.25 to 0.39 (largest) then,
# and the shared and the plain pass both by 0.03 from float32 (SmolLM2, support desk).
FLOORS = {"mean": (1e-4, 4), "largest": (1e-3, 128)}
Rows = list[list[int]]


@dataclass(frozen=True, slots=True)
class Level:
    """Segments of one level. ``segments`` are token ids. ``parents`` are the segments of the level before that they continue.
    ``rows`` holds the segment of each row.
    """

    segments: Rows
    parents: list[int]
    rows: list[int]


class Keys(NamedTuple):
    """Keys and values of segments, None before the first level, and ``seen``, the mask of those that are not padding."""

    cache: DynamicCache | None
    seen: torch.Tensor


def unshareable(model: Any) -> str:
    """The reason why training passes of the causal LM ``model`` cannot share prefixes; empty if they can."""
    config = model.config.get_text_config().to_dict()
    if any(value for key, value in config.items() if "dropout" in key or key.endswith("_pdrop")):
        return "it drops units at random, and differently for each row"
    return obstacle(model)


def share_prefixes(model: Any, on_request: bool = False) -> None:
    """Let the body of the causal LM ``model`` compute shared prefixes once, for every caller that passes whole rows.

    The body of a model that cannot share computes as before. Every body also takes ``keep``, the number of last columns whose
    hidden states it returns. With ``on_request``, only passes that set ``keep`` share. The first shared pass is compared with
    the plain pass: if log-probabilities of a few rows differ by more than rounding, the summary says so (``doubts``), and
    this pass and all later ones are plain.
    """
    body = model.base_model
    plain = body.forward
    able = not unshareable(model)
    checked = False

    def forward(input_ids: Any = None, attention_mask: Any = None, keep: int = 0, **others: Any) -> Any:
        nonlocal able, checked
        may = able and (keep > 0 or not on_request)
        rows = _whole_rows(input_ids, attention_mask, others, body) if may and input_ids is not None else None
        levels = levels_of(rows) if rows else []
        if len(levels) > 1:
            hidden = _by_levels(plain, levels, input_ids, attention_mask)
            if not checked:
                checked = True
                if doubt := _difference(model, plain, hidden, input_ids, attention_mask):
                    able = False
                    doubts.append(f"training passes did not share prefixes, which costs time only: {doubt}")
            if able:
                return BaseModelOutputWithPast(last_hidden_state=hidden[:, -keep:] if keep else hidden)
        output = plain(input_ids=input_ids, attention_mask=attention_mask, **others)
        if keep:
            output.last_hidden_state = output.last_hidden_state[:, -keep:]
        return output

    body.forward = forward


def shares(config: Optimizer, launch: Launch) -> bool:
    """Whether training passes may share prefixes. ZeRO-3 cannot: it gathers a layer's weights for a single call."""
    return config.share_prefixes and launch.sharding != "zero3" and not config.gradient_checkpointing


def prepare_passes(model: Any, anchor: Any, config: Optimizer, launch: Launch, on_request: bool = False) -> bool:
    """Let ``model`` and its ``anchor``, if it has one, share prefixes if the parameters ask for it and allow it: see
    `share_prefixes`. Returns whether they do.

    If training passes do not share prefixes although ``train.share_prefixes`` asks for it, print the reason.
    """
    allowed = shares(config, launch)
    for one in (model, anchor) if allowed else ():
        if one is not None:
            share_prefixes(one, on_request)
    reason = unshareable(model)
    if not allowed:
        key = "launch.sharding: zero3" if launch.sharding == "zero3" else "train.gradient_checkpointing"
        reason = f"{key} does not allow it"
    if config.share_prefixes and reason and is_main():
        print(f"training passes do not share prefixes: {reason}")
    return allowed


def _difference(model: Any, plain: Callable[..., Any], hidden: Any, ids: Any, mask: Any) -> str:
    """How the log-probabilities of a few rows differ from the plain pass by more than rounding, as the plain pass over all of
    them differs from one pass for each row; empty if they do not.

    This proves that sharing adds no more than rounding does in the type in which the passes compute. It does not prove that
    the type is exact enough to train with.
    """
    rows = torch.linspace(0, len(ids) - 1, min(CHECKED, len(ids))).long().to(ids.device)
    ids, mask = ids[rows], mask[rows]

    def passed(tokens: Any, seen: Any) -> torch.Tensor:
        states = plain(input_ids=tokens, attention_mask=seen, use_cache=False).last_hidden_state
        return _scores(model, states, tokens, seen)

    with torch.no_grad():
        shared, together = _scores(model, hidden[rows], ids, mask), passed(ids, mask)
        alone = torch.zeros_like(together)
        for row, there in enumerate(mask > 0):
            alone[row, there[1:] & there[:-1]] = passed(ids[row : row + 1, there], mask[row : row + 1, there])[0]
    written = (mask[:, 1:] * mask[:, :-1]) > 0
    noise, found = ((other - together).abs()[written] for other in (alone, shared))
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    for name, of in (("mean", torch.mean), ("largest", torch.max)):
        least, roundings = FLOORS[name]
        allowed = max(least, roundings * torch.finfo(dtype).eps, TIMES * float(of(noise)))
        difference = float(of(found))
        if not difference <= allowed:
            return f"log-probabilities differ from the plain pass by {difference:.2g} ({name}), more than {allowed:.2g}"
    return ""


def _scores(model: Any, hidden: Any, ids: Any, mask: Any) -> torch.Tensor:
    logps = model.get_output_embeddings()(hidden[:, :-1].contiguous()).float().log_softmax(-1)
    return logps.gather(2, ids[:, 1:, None])[..., 0] * (mask[:, 1:] * mask[:, :-1])


def _whole_rows(ids: Any, mask: Any, others: dict[str, Any], body: Any) -> Rows | None:
    """The tokens of each row without padding, if this is a pass over whole rows."""
    harmless = {"return_dict", "logits_to_keep"}
    if any(value is not None and value is not False and name not in harmless for name, value in others.items()):
        return None
    if (
        mask is None
        or mask.dim() != 2
        or len(ids) < 2
        or (getattr(body, "gradient_checkpointing", False) and body.training)
    ):
        return None
    lengths = mask.sum(1)
    first = mask.argmax(1)
    steps = torch.arange(ids.shape[1], device=ids.device)
    inside = (steps >= first[:, None]) & (steps < (first + lengths)[:, None])
    if not bool((inside == (mask > 0)).all()):
        return None
    return present(ids, mask)


def present(ids: torch.Tensor, mask: torch.Tensor) -> Rows:
    """The tokens of each row without padding."""
    return [row[there > 0].tolist() for row, there in zip(ids, mask, strict=True)]


def levels_of(rows: Rows) -> list[Level]:
    """The levels of a pass over ``rows``: shared prefixes first, the rest of the rows last. One level means no sharing."""
    levels = _levels(rows)
    computed = sum(len(segment) for level in levels for segment in level.segments)
    worth = sum(map(len, rows)) - computed >= WORTH * len(rows)
    return levels if worth else [Level(rows, [0] * len(rows), list(range(len(rows))))]


def _levels(rows: Rows) -> list[Level]:
    levels: list[Level] = []
    starts, parents = [0] * len(rows), [0] * len(rows)
    groups = [list(range(len(rows)))]
    for _ in range(2):
        groups = [part for group in groups for part in _alike(rows, group, starts)]
        ends = [_common(rows, group) for group in groups]
        saved = sum((len(group) - 1) * (end - starts[group[0]]) for group, end in zip(groups, ends, strict=True))
        if saved < LEAST * len(rows):
            continue
        level = Level([], [], [0] * len(rows))
        typical = max(end - starts[group[0]] for group, end in zip(groups, ends, strict=True) if len(group) > 1)
        for group, end in zip(groups, ends, strict=True):
            start = starts[group[0]]
            stop = end if len(group) > 1 else min(start + typical, end)
            if stop <= start:
                return _last(rows, levels, starts, parents)  # a row has no separate token here: share no deeper
            level.segments.append(rows[group[0]][start:stop])
            level.parents.append(parents[group[0]])
            for row in group:
                level.rows[row] = len(level.segments) - 1
        for group in groups:
            for row in group:
                starts[row] += len(level.segments[level.rows[row]])
                parents[row] = level.rows[row]
        levels.append(level)
    return _last(rows, levels, starts, parents)


def _last(rows: Rows, levels: list[Level], starts: list[int], parents: list[int]) -> list[Level]:
    rest = [row[start:] for row, start in zip(rows, starts, strict=True)]
    return [*levels, Level(rest, list(parents), list(range(len(rows))))]


def _alike(rows: Rows, group: Sequence[int], starts: Sequence[int]) -> list[list[int]]:
    """Parts of ``group`` whose rows have the same next LEAST tokens or more, in the order of their first row."""
    parts: dict[tuple[int, ...], list[int]] = {}
    for row in group:
        parts.setdefault(tuple(rows[row][starts[row] : starts[row] + LEAST]), []).append(row)
    return list(parts.values())


def _common(rows: Rows, group: Sequence[int]) -> int:
    """The length of the prefix that all rows of ``group`` share, without the last token of each row."""
    low, high = min(rows[row] for row in group), max(rows[row] for row in group)
    most = min(len(rows[row]) for row in group) - 1
    return next((index for index in range(most) if low[index] != high[index]), most)


def _by_levels(
    plain: Callable[..., Any], levels: Sequence[Level], ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Hidden states, rows × columns × width, zero at padding."""
    known = Keys(None, torch.zeros((1, 0), dtype=mask.dtype, device=ids.device))
    states: list[torch.Tensor] = []
    columns: list[list[int]] = [[] for _ in levels[-1].rows]  # the indices of each row's hidden states in ``states``
    offset = 0
    for level in levels:
        first: dict[int, int] = {}  # the index of each segment's first hidden state
        # the next level continues all segments together; those of the last level need no common width
        batches = _batches(level.segments) if level is levels[-1] else [list(range(len(level.segments)))]
        before = known
        for batch in batches:
            hidden, known = _continued(plain, level, batch, before, ids)
            states.append(hidden.reshape(-1, hidden.shape[-1]))
            for number in batch:
                first[number] = offset
                offset += hidden.shape[1]
        for row, number in enumerate(level.rows):
            columns[row] += range(first[number], first[number] + len(level.segments[number]))
    flat = torch.cat([*states, states[0].new_zeros((1, states[0].shape[-1]))])
    index = torch.full(ids.shape, offset, dtype=torch.long, device=ids.device)
    index[mask > 0] = torch.tensor([column for row in columns for column in row], device=ids.device)
    return flat.index_select(0, index.reshape(-1)).reshape(*ids.shape, -1)


def _continued(
    plain: Callable[..., Any], level: Level, batch: Sequence[int], known: Keys, ids: torch.Tensor
) -> tuple[torch.Tensor, Keys]:
    """Hidden states (batch × longest × width) of the segments ``batch`` of ``level``, and the keys up to their ends.

    ``known`` are the keys of the level before. ``ids`` give the type and the device of token ids.
    """
    segments = [level.segments[number] for number in batch]
    rows = [torch.tensor(segment, dtype=ids.dtype, device=ids.device) for segment in segments]
    tokens = pad_sequence(rows, batch_first=True)
    present = pad_sequence([torch.ones_like(row, dtype=known.seen.dtype) for row in rows], batch_first=True)
    parents = torch.tensor([level.parents[number] for number in batch], device=ids.device)
    before = known.seen.index_select(0, parents)
    seen = torch.cat([before, present], dim=1)
    output = plain(
        input_ids=tokens,
        attention_mask=seen,
        position_ids=before.sum(1, keepdim=True) + torch.arange(tokens.shape[1], device=ids.device),
        past_key_values=DynamicCache() if known.cache is None else _selected(known.cache, parents),
        use_cache=True,
    )
    return output.last_hidden_state, Keys(output.past_key_values, seen)


def _batches(segments: Rows) -> list[list[int]]:
    """The positions of ``segments`` in batches of similar lengths, the longest first: a batch is padded to its longest."""
    batches: list[list[int]] = []
    for number in sorted(range(len(segments)), key=lambda number: -len(segments[number])):
        if batches and len(segments[number]) >= SIMILAR * len(segments[batches[-1][0]]):
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches


def _selected(cache: DynamicCache, segments: torch.Tensor) -> DynamicCache:
    """The cache whose rows are those of ``segments``, differentiable."""
    selected = DynamicCache()
    for number, layer in enumerate(cache.layers):
        selected.update(layer.keys.index_select(0, segments), layer.values.index_select(0, segments), number)
    return selected

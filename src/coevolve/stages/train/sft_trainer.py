"""Supervised learning by TRL's ``SFTTrainer``, over episodes as token ids. The environment's tokens are not targets."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import SFTConfig, SFTTrainer

from coevolve.stages.train.offline import InOrder, OfflineMethod, Row
from coevolve.stages.train.reference_tokens import Example, Tokens

IGNORED = -100  # the label of tokens that are not targets


def method(rate: float) -> OfflineMethod:
    """The likelihood of the agent's tokens in successful episodes."""
    arguments = partial(SFTConfig, dataset_kwargs={"skip_prepare_dataset": True})  # otherwise TRL would tokenize texts
    return OfflineMethod(OrderedSFT, arguments, row, collate, anchored=False, rate=rate)


def row(example: Example) -> Row:
    """The row of a pair's chosen side."""
    return supervised(example.chosen)


class OrderedSFT(InOrder, SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over the rows of ``row``."""

    def compute_loss(self, model: Any, inputs: Mapping[str, Any], *arguments: Any, **options: Any) -> Any:
        return super().compute_loss(
            model, from_first_target(inputs) if self.prepared else inputs, *arguments, **options
        )


def from_first_target(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """``inputs`` of a pass that projects no column before the first target to the vocabulary. On a CPU, TRL projects all.

    The prompt is most of an episode, and a pretrained model's vocabulary takes as long as many layers.
    """
    labels = inputs["labels"]
    first = int((labels != IGNORED).any(0).int().argmax())
    keep = min(labels.shape[1] - first + 1, labels.shape[1])
    return {**inputs, "labels": labels[:, -keep:], "keep": keep}


def supervised(episode: Tokens) -> dict[str, list[int]]:
    """The ids of the whole episode and equally many labels: the agent's tokens are the targets."""
    targets = [token if mask else IGNORED for token, mask in zip(episode.completion, episode.mask, strict=True)]
    prompt = episode.prompt
    return {"input_ids": prompt + episode.completion, "labels": [IGNORED] * len(prompt) + targets}


def collate(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Tensors of rows × longest: ids, attention and labels."""
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    labels = [torch.tensor(row["labels"]) for row in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(tokens) for tokens in ids], batch_first=True),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }

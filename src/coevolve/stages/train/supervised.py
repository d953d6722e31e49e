"""Episodes to be likely: what the agent wrote in them is a target, and what the environment wrote is none."""

import torch
from torch.nn.utils.rnn import pad_sequence

from coevolve.stages.train.references import Tokens

IGNORED = -100  # a label that is no target


def supervised(one: Tokens) -> dict[str, list[int]]:
    """Ids of the whole episode, and as many labels."""
    own = [token if mask else IGNORED for token, mask in zip(one.completion, one.mask, strict=True)]
    return {"input_ids": one.prompt + one.completion, "labels": [IGNORED] * len(one.prompt) + own}


def collate(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Rows × longest each: ids, which are there, and labels."""
    ids = [torch.tensor(one["input_ids"]) for one in rows]
    labels = [torch.tensor(one["labels"]) for one in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }

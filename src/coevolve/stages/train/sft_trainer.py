"""Supervised learning by TRL's ``SFTTrainer``, over episodes as token ids. What the environment wrote is no target."""

from functools import partial

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import SFTConfig, SFTTrainer

from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings
from coevolve.stages.train.offline import InOrder, OfflineMethod, Row, fit
from coevolve.stages.train.reference_tokens import Example, Tokens
from coevolve.stages.train.sft import Sft

IGNORED = -100  # a label that is no target


def train(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    assert isinstance(settings.learner, Sft)
    fit(method(settings.learner.learning_rate), settings, environment, job, log)


def method(rate: float) -> OfflineMethod:
    """The likelihood of what the agent says in right episodes."""
    arguments = partial(SFTConfig, dataset_kwargs={"skip_prepare_dataset": True})  # or TRL would tokenize texts
    return OfflineMethod(OrderedSFT, arguments, row, collate, held=False, rate=rate)


def row(example: Example) -> Row:
    """The chosen side alone; what the environment wrote is no target."""
    return supervised(example.chosen)


class OrderedSFT(InOrder, SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over rows such as ``row`` makes."""


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

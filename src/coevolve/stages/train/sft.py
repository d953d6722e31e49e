"""Supervised learning by TRL's ``SFTTrainer``: the right side of each pair is what the agent should have said.

With references (`pairs.expert`) it imitates an expert. Without, it is rejection sampling from the agent's own episodes (RFT,
arXiv 2308.01825), at the tasks that it solves now and then.
"""

from functools import partial

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import SFTConfig, SFTTrainer

from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings
from coevolve.stages.train.offline import InOrder, Method, Row, fit
from coevolve.stages.train.references import Tokens

IGNORED = -100  # a label that is no target


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    arguments = partial(SFTConfig, dataset_kwargs={"skip_prepare_dataset": True})  # or TRL would tokenize texts
    method = Method(OrderedSFT, arguments, row, collate, held=False, rate=settings.sft.learning_rate)
    fit(method, settings, environment, job, log)


def row(chosen: Tokens, rejected: Tokens) -> Row:
    """The chosen side alone; what the environment wrote is no target."""
    own = [token if mask else IGNORED for token, mask in zip(chosen.completion, chosen.mask, strict=True)]
    return {"input_ids": chosen.prompt + chosen.completion, "labels": [IGNORED] * len(chosen.prompt) + own}


class OrderedSFT(InOrder, SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over rows such as ``row`` makes."""


def collate(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Rows × longest each: ids, which are there, and labels."""
    ids = [torch.tensor(one["input_ids"]) for one in rows]
    labels = [torch.tensor(one["labels"]) for one in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }

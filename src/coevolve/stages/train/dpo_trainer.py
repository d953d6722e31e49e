"""DPO by TRL's ``DPOTrainer``, over episodes as token ids. What the environment wrote is masked."""

from functools import partial
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import DPOConfig, DPOTrainer

from coevolve.environments.environment import Environment
from coevolve.stages.train.checkpoints import Keeper, resumed
from coevolve.stages.train.dpo import Dpo
from coevolve.stages.train.learner import Job, Log, Settings, Shared
from coevolve.stages.train.offline import Batch, InOrder, OfflineMethod, Row, fit, paired, trained
from coevolve.stages.train.reference_tokens import Example
from coevolve.stages.train.saving import save_learned


def train(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    assert isinstance(settings.learner, Dpo)
    fit(method(settings.learner), settings, environment, job, log)


def prefer(
    own: Dpo, settings: Shared, environment: Environment, job: Job, batch: Batch, name: str
) -> list[dict[str, float]]:
    """Train or resume ``job`` by its pairs alone, whoever played them, and write its policy, or the adapter alone; the
    figures of each step.

    NothingToLearn, if they are not enough for a step.
    """
    checkpoint, steps = resumed(job.scratch)
    keeper = Keeper(steps, None)
    rows = paired(method(own), settings, environment, job, batch)
    trainer, tokenizer = trained(method(own), settings, job, batch, name, keeper, checkpoint, rows)
    save_learned(trainer, tokenizer, settings, job)
    return steps.metrics(settings.train.steps)


def method(own: Dpo) -> OfflineMethod:
    """DPO with the likelihood of what is preferred beside it."""
    arguments = partial(DPOConfig, beta=own.beta, loss_type=["sigmoid", "sft"], loss_weights=[1.0, own.sft_weight])
    return OfflineMethod(MaskedDPO, arguments, row, collate, held=True, rate=own.learning_rate)


def row(example: Example) -> Row:
    return {
        "prompt_ids": example.chosen.prompt,
        "chosen_ids": example.chosen.completion,
        "chosen_mask": example.chosen.mask,
        "rejected_ids": example.rejected.completion,
        "rejected_mask": example.rejected.mask,
    }


class MaskedDPO(InOrder, DPOTrainer):  # type: ignore[misc]
    """``DPOTrainer`` over rows such as ``row`` makes; TRL's own would tokenize texts, and take all of a completion."""

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        return dataset


def collate(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Of n rows, 2n × longest each: ids (the chosen, then the rejected), which are there, and which the agent wrote."""
    sides = ("chosen", "rejected")
    ids = [torch.tensor(one["prompt_ids"] + one[f"{side}_ids"]) for side in sides for one in rows]
    masks = [torch.tensor([0] * len(one["prompt_ids"]) + one[f"{side}_mask"]) for side in sides for one in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(one) for one in ids], batch_first=True),
        "completion_mask": pad_sequence(masks, batch_first=True),
    }

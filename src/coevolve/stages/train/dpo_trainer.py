"""DPO by TRL's ``DPOTrainer``, over episodes as token ids. The environment's tokens are masked."""

from functools import partial
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import DPOConfig, DPOTrainer

from coevolve.environments.environment import Environment
from coevolve.stages.train.dpo import Dpo
from coevolve.stages.train.learner import Job, Shared
from coevolve.stages.train.offline import Batch, OfflineMethod, Row, paired, trained
from coevolve.stages.train.reference_tokens import Example
from coevolve.stages.train.saving import Keeper, resumed, save_learned


def prefer(
    config: Dpo, settings: Shared, environment: Environment, job: Job, batch: Batch, name: str
) -> list[dict[str, float]]:
    """Train or resume ``job`` on its pairs, write its policy or adapter, and return the figures of each step.

    Raises NothingToLearn if there are fewer pairs than a step takes.
    """
    checkpoint, steps = resumed(job.scratch)
    keeper = Keeper(steps, None)
    rows = paired(method(config), settings, environment, job, batch)
    trainer, tokenizer = trained(method(config), settings, job, batch, name, keeper, checkpoint, rows)
    save_learned(trainer, tokenizer, settings, job)
    return steps.metrics(settings.train.steps)


def method(config: Dpo) -> OfflineMethod:
    """DPO plus the likelihood of the preferred episode."""
    weights = [1.0, config.sft_weight]
    arguments = partial(DPOConfig, beta=config.beta, loss_type=["sigmoid", "sft"], loss_weights=weights)
    return OfflineMethod(MaskedDPO, arguments, row, collate, anchored=True, rate=config.learning_rate)


def row(example: Example) -> Row:
    return {
        "prompt_ids": example.chosen.prompt,
        "chosen_ids": example.chosen.completion,
        "chosen_mask": example.chosen.mask,
        "rejected_ids": example.rejected.completion,
        "rejected_mask": example.rejected.mask,
    }


class MaskedDPO(DPOTrainer):  # type: ignore[misc]
    """``DPOTrainer`` over the rows of ``row``. TRL's own preparation would tokenize texts and mask nothing."""

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        return dataset


def collate(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Tensors of 2n × longest from n rows, the chosen sides first: ids, attention, and the tokens that the agent wrote."""
    sides = ("chosen", "rejected")
    ids = [torch.tensor(row["prompt_ids"] + row[f"{side}_ids"]) for side in sides for row in rows]
    masks = [torch.tensor([0] * len(row["prompt_ids"]) + row[f"{side}_mask"]) for side in sides for row in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(tokens) for tokens in ids], batch_first=True),
        "completion_mask": pad_sequence(masks, batch_first=True),
    }

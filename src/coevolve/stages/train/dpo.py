"""DPO: the learner of `train.learner: dpo`, by TRL's ``DPOTrainer`` over episodes as token ids.

The loss is direct preference optimization (arXiv 2305.18290) plus the likelihood of the preferred episode, as in ETO
(arXiv 2403.02502):

    L = -log sigmoid(beta (log π(y_w)/π_anchor(y_w) - log π(y_l)/π_anchor(y_l))) - sft_weight mean_t log π(y_w,t)

log π(y) is a sum over the agent's tokens, in nats. The environment's text is context and never a target.
"""

from functools import partial
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import DPOConfig, DPOTrainer

from coevolve.environments.environment import Environment
from coevolve.stages.train.config import Dpo
from coevolve.stages.train.learner import Job, Log, Settings, Shared
from coevolve.stages.train.offline import Batch, OfflineMethod, Row, fit, paired, trained
from coevolve.stages.train.reference_tokens import Example
from coevolve.stages.train.saving import Keeper, resumed, save_learned


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    assert isinstance(settings.learner, Dpo)
    fit(method(settings.learner), settings, environment, job, log)


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

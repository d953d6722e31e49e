"""Supervised learning: the learner of `train.learner: sft`, by TRL's ``SFTTrainer`` over episodes as token ids.

The loss is the negative log-likelihood of the agent's tokens in the preferred episode of each pair, in nats per token:

    L = -mean_t log π(y_w,t)

With references (`pairs.expert`) the agent imitates an expert. Without them it learns from its own successes at tasks that it
sometimes solves (rejection sampling, RFT, arXiv 2308.01825). The environment's tokens are not targets.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from trl import SFTConfig, SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from coevolve.environments.environment import Environment
from coevolve.stages.train.config import Sft
from coevolve.stages.train.learner import Job, Log, Settings
from coevolve.stages.train.offline import OfflineMethod, Row, fit
from coevolve.stages.train.reference_tokens import Example, Tokens

IGNORED = -100  # the label of tokens that are not targets
collate = DataCollatorForLanguageModeling(pad_token_id=0)  # tensors of rows × longest: ids, attention and labels


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    assert isinstance(settings.learner, Sft)
    fit(method(settings.learner.learning_rate), settings, environment, job, log)


def method(rate: float) -> OfflineMethod:
    """The likelihood of the agent's tokens in successful episodes."""
    arguments = partial(SFTConfig, dataset_kwargs={"skip_prepare_dataset": True})  # otherwise TRL would tokenize texts
    return OfflineMethod(EpisodeSFT, arguments, row, collate, anchored=False, rate=rate)


def row(example: Example) -> Row:
    """The row of a pair's chosen side."""
    return supervised(example.chosen)


class EpisodeSFT(SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over the rows of ``row``."""

    prepared = False  # whether `prepare_passes` has prepared the model

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

"""Supervised learning: the learner of `train.learner: sft`, and its section `sft`.

The loss is the negative log-likelihood of the agent's tokens in the preferred episode of each pair. With references
(`pairs.expert`) the agent imitates an expert. Without them it learns from its own successes at tasks that it sometimes solves
(rejection sampling, RFT, arXiv 2308.01825). The trainer is in sft_trainer.py.
"""

from typing import ClassVar

from coevolve.core.section import LearnerConfig, Positive
from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings


class Sft(LearnerConfig):
    by_pairs: ClassVar[bool] = True
    learning_rate: Positive = 0.00002
    """Learning rate."""


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    from coevolve.stages.train.offline import fit
    from coevolve.stages.train.sft_trainer import method

    assert isinstance(settings.learner, Sft)
    fit(method(settings.learner.learning_rate), settings, environment, job, log)

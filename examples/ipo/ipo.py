"""IPO (arXiv 2310.12036) as a learner: pairs like DPO's, and a squared loss that aims at a fixed margin."""

from functools import partial
from typing import ClassVar

from coevolve.core.section import LearnerConfig, Positive


class Ipo(LearnerConfig):
    by_pairs: ClassVar[bool] = True  # stage `pairs` makes preference pairs for it
    learning_rate: Positive = 0.00002
    """Learning rate."""
    beta: Positive = 0.1
    """The loss aims at a margin of 1 / (2 beta)."""


def learn(settings, environment, job, log=None):
    from trl import DPOConfig

    from coevolve.stages.train.dpo import MaskedDPO, collate, row
    from coevolve.stages.train.offline import OfflineMethod, fit

    arguments = partial(DPOConfig, loss_type=["ipo"], beta=settings.learner.beta)
    method = OfflineMethod(MaskedDPO, arguments, row, collate, anchored=True, rate=settings.learner.learning_rate)
    fit(method, settings, environment, job, log)

"""DPO: the learner of `train.learner: dpo`, and its section `dpo`.

The loss is direct preference optimization (arXiv 2305.18290) plus the likelihood of the preferred episode, as in ETO
(arXiv 2403.02502):

    L = -log sigmoid(beta (log π(y_w)/π_anchor(y_w) - log π(y_l)/π_anchor(y_l))) - sft_weight mean_t log π(y_w,t)

The environment's text is context and never a target. The trainer is in dpo_trainer.py.
"""

from typing import ClassVar

from coevolve.core.section import LearnerConfig, NotNegative, Positive
from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings


class Dpo(LearnerConfig):
    by_pairs: ClassVar[bool] = True
    learning_rate: Positive = 0.00002
    """Learning rate; GRPO's rate is too high here, because pairs pull in one direction and groups in several."""
    beta: Positive = 0.1
    """Scale of the log-ratios to train.anchor."""
    sft_weight: NotNegative = 0.5
    """Weight of the preferred episode's likelihood; the preference has weight 1."""


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    from coevolve.stages.train.dpo_trainer import method
    from coevolve.stages.train.offline import fit

    assert isinstance(settings.learner, Dpo)
    fit(method(settings.learner), settings, environment, job, log)

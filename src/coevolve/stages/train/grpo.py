"""GRPO: the learner of `train.learner: grpo`.

The loss is the clipped policy gradient with advantages relative to a task's group of attempts, plus a KL term (DeepSeekMath,
arXiv 2402.03300; clip-higher of DAPO, arXiv 2503.14476):

    A_i = (r_i - mean(r)) / std(r)
    L = -mean_t min(ρ_t A, clip(ρ_t, 1 - epsilon, 1 + epsilon_high) A) + beta KL(π, π_anchor)

The trainer is in grpo_trainer.py.
"""

from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    from coevolve.stages.train.grpo_trainer import train

    train(settings, environment, job, log)

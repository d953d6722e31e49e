"""GRPO: the learner of `train.learner: grpo`, and its section `grpo`.

The loss is the clipped policy gradient with advantages relative to a task's group of attempts, plus a KL term (DeepSeekMath,
arXiv 2402.03300; clip-higher of DAPO, arXiv 2503.14476):

    A_i = (r_i - mean(r)) / std(r)
    L = -mean_t min(ρ_t A, clip(ρ_t, 1 - epsilon, 1 + epsilon_high) A) + beta KL(π, π_anchor)

The trainer is in grpo_trainer.py.
"""

from coevolve.core.section import LearnerConfig, NotNegative, Positive, Whole
from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings


class Grpo(LearnerConfig):
    learning_rate: Positive = 0.00015
    """Learning rate; twice this value drifts on the embedded policy."""
    beta: NotNegative = 0.1
    """Weight of the KL divergence from train.anchor; at 0.001 the agent forgets tasks that it does not train on."""
    epsilon: Positive = 0.2
    """Lower clip range."""
    epsilon_high: Positive = 0.28
    """Upper clip range."""
    refill_rounds: Whole = 1
    """Rounds that replace groups of equal rewards by new groups."""


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    from coevolve.stages.train.grpo_trainer import train

    train(settings, environment, job, log)

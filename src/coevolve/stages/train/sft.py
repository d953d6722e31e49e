"""Supervised learning by TRL's ``SFTTrainer``: the right side of each pair is what the agent should have said.

With references (`pairs.expert`) it imitates an expert. Without, it is rejection sampling from the agent's own episodes (RFT,
arXiv 2308.01825), at the tasks that it solves now and then.
"""

from functools import partial

from trl import SFTConfig, SFTTrainer

from coevolve.environments.environment import Environment
from coevolve.stages.train.learner import Job, Log, Settings
from coevolve.stages.train.offline import InOrder, Method, Row, fit
from coevolve.stages.train.references import Example
from coevolve.stages.train.supervised import collate, supervised


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    fit(method(settings.sft.learning_rate), settings, environment, job, log)


def method(rate: float) -> Method:
    """The likelihood of what the agent says in right episodes."""
    arguments = partial(SFTConfig, dataset_kwargs={"skip_prepare_dataset": True})  # or TRL would tokenize texts
    return Method(OrderedSFT, arguments, row, collate, held=False, rate=rate)


def row(example: Example) -> Row:
    """The chosen side alone; what the environment wrote is no target."""
    return supervised(example.chosen)


class OrderedSFT(InOrder, SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over rows such as ``row`` makes."""

"""What a policy learns by: learners by name, and what each is given.

A learner is a module with a function ``learn`` of the signature of ``Learner``, a line in ``LEARNERS`` and, where it has
parameters of its own, a section of its own name in params.yaml.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from coevolve.core.errors import CoevolveError
from coevolve.core.params import Dpo, Grpo, Launch, Params, PolicySection, Sft, Train
from coevolve.core.processes import available, prepare
from coevolve.core.records import Attempt, Pair, Trajectory
from coevolve.core.task import Task
from coevolve.environments.environment import Environment

LEARNERS = {
    "grpo": "coevolve.stages.train.grpo",
    "dpo": "coevolve.stages.train.dpo",
    "sft": "coevolve.stages.train.sft",
}


class NothingToLearn(CoevolveError):
    """There are fewer pairs than a step takes."""


Log = Callable[[int, dict[str, float]], None]  # of a step's number and its metrics


@dataclass(frozen=True)
class Shared:
    """Of params.yaml: what all learners read."""

    train: Train
    policy: PolicySection
    launch: Launch


@dataclass(frozen=True)
class Settings(Shared):
    """The section of each besides."""

    grpo: Grpo
    dpo: Dpo
    sft: Sft

    @classmethod
    def of(cls, params: Params) -> "Settings":
        """For benchmarks and tests; a stage's script names each section it reads, as dvc.yaml does."""
        return cls(params.train, params.policy, params.launch, params.grpo, params.dpo, params.sft)


@dataclass(frozen=True)
class Job:
    """What to train: ``iteration`` starts from the model directory ``parent`` and writes ``policy`` and the files.

    ``base`` is policies/0, ``attempts`` are those at the tasks in earlier iterations, in order of iteration and step.
    ``pairs`` are of episodes in ``rehearsals``, which the parent played, ``references`` and ``hard``, the failure agent's; some
    learners have none.
    ``scratch`` is a folder of this very job (its name holds a fingerprint of all inputs): checkpoints go there.
    """

    iteration: int
    seed: int
    parent: Path
    tasks: Sequence[Task]
    policy: Path
    trajectories: Path
    metrics: Path
    scratch: Path
    base: Path
    attempts: Sequence[Attempt] = ()
    pairs: Sequence[Pair] = ()
    rehearsals: Sequence[Trajectory] = ()
    references: Sequence[Trajectory] = ()
    hard: Sequence[Trajectory] = ()


class Learner(Protocol):
    def __call__(self, settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
        """Run or resume ``job``; ``log`` gets every step's metrics as soon as they are known, in the main process."""
        ...


def reference(settings: Shared, job: Job) -> Path:
    """The policy that the one in training is held against."""
    return job.base if settings.train.reference == "base" else job.parent


def learner(name: str) -> Learner:
    """The learner that ``train.learner`` names; its module, with all that it needs, is loaded now."""
    if available() > 1:
        prepare("coevolve.stages.train.passes")  # they import for as long as we do
    learn: Learner = import_module(LEARNERS[name]).learn
    return learn

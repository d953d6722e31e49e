"""What every learner is given, and what it is: a function of the signature of ``Learner``. Learners by name: learners.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coevolve.core.errors import CoevolveError
from coevolve.core.launch import Launch
from coevolve.core.records import Attempt, Pair
from coevolve.core.section import LearnerConfig
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.config import PolicySection
from coevolve.stages.train.config import Train


class NothingToLearn(CoevolveError):
    """There are fewer pairs than a step takes."""


Log = Callable[[int, dict[str, float]], None]  # of a step's number and its metrics


@dataclass(frozen=True)
class Shared:
    """The sections that all training by gradient steps reads."""

    train: Train
    policy: PolicySection
    launch: Launch


@dataclass(frozen=True)
class Settings(Shared):
    """With the section of the learner."""

    learner: LearnerConfig


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

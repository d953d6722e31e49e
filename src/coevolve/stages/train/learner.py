"""The interface of learners: a learner is a function with the signature of ``Learner``. learners.py lists learners by name."""

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

doubts: list[str] = []  # why a check of this process has ended a means of speed, for the summary of the stage


def noted() -> list[str]:
    """Take the ``doubts``."""
    found = doubts.copy()
    doubts.clear()
    return found


class NothingToLearn(CoevolveError):
    """There are fewer pairs than a step takes."""


Log = Callable[[int, dict[str, float]], None]  # takes a step's number and its metrics


@dataclass(frozen=True)
class Shared:
    """The sections that every training by gradient steps reads."""

    train: Train
    policy: PolicySection
    launch: Launch


@dataclass(frozen=True)
class Settings(Shared):
    """``Shared`` plus the learner's own section."""

    learner: LearnerConfig


@dataclass(frozen=True)
class Job:
    """One training: ``iteration`` starts from the model directory ``parent`` and writes ``policy`` and the files.

    ``base`` is policies/0. ``attempts`` at the tasks in earlier iterations come in order of iteration and step.
    ``pairs`` refer to episodes of the parent (``rehearsals``), of ``references`` and of the failure agent (``hard``). Learners
    that play by themselves get none. ``replay`` are successful episodes of ``base``, of stage `replay`.
    ``scratch`` is this job's folder for checkpoints; its name holds a fingerprint of all inputs.
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
    replay: Sequence[Trajectory] = ()


class Learner(Protocol):
    def __call__(self, settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
        """Run or resume ``job``; in the main process, ``log`` receives the metrics of each step."""
        ...


def anchor(settings: Shared, job: Job) -> Path:
    """The policy that GRPO's KL term and DPO's log-ratios pull the agent towards.

    The literature calls it the reference policy. Here a reference is the solution of a task.
    """
    return job.base if settings.train.anchor == "base" else job.parent

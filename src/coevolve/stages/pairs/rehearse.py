"""Play episodes before training: the policy plays the tasks of the training steps, the failure agent those it failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from coevolve.core.learnability import recorded
from coevolve.core.records import Attempt
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories, write_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.mixture import shares_of
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Episode, Limits, RolloutRequest, rollout
from coevolve.stages.train.config import Train
from coevolve.stages.train.curriculum import Step, stream
from coevolve.stages.train.groups import attempts, requests

PART = 128  # episodes of the failure agent in one file


@dataclass(frozen=True)
class Rehearsal:
    """The ``tasks`` of an iteration to play, and the attempts ``before``; ``scratch`` is the folder of this rehearsal."""

    seed: int
    iteration: int
    tasks: Sequence[Task]
    before: Sequence[Attempt]
    scratch: Path


def rehearse(
    policy: Policy | Replicas,
    environment: Environment,
    plan: Rehearsal,
    config: Train,
    limits: Limits,
    progress: Callable[[int], object],
) -> list[Trajectory]:
    """The episodes of ``config.steps`` training steps, by step, group and attempt, with the seeds of training.

    Each step's episodes go to a file in the scratch folder, so that a killed rehearsal continues after its last complete step.
    ``progress`` takes the number of episodes that have just ended.
    """
    trajectories: list[Trajectory] = []
    records = recorded({}, plan.before)
    roll = partial(rollout, policy, environment, limits=limits, progress=progress)
    for step in range(config.steps):
        now = Step.of(plan.seed, plan.iteration, step, config.tasks_per_step, shares_of(environment))
        tasks = islice(stream(plan.tasks, records, config, now), config.tasks_per_step)
        wanted = requests(enumerate(tasks), config.group_size, plan.seed, plan.iteration, step)
        played = _kept(plan.scratch / f"{step}.parquet", wanted, roll, progress)
        records = recorded(records, attempts(played))
        trajectories += played
    return trajectories


def play(
    policy: Policy | Replicas,
    environment: Environment,
    tasks: Sequence[Task],
    count: int,
    plan: Rehearsal,
    phase: str,
    limits: Limits,
    progress: Callable[[int], object],
) -> list[Trajectory]:
    """``count`` episodes that walk through ``tasks`` again and again, with seeds for this ``phase``.

    They go to the scratch folder in parts, so that a killed run continues after its last complete part.
    """
    roll = partial(rollout, policy, environment, limits=limits, progress=progress)
    wanted = []
    for number in range(count):
        sample, index = divmod(number, len(tasks))
        seed = derive_seed(plan.seed, phase, plan.iteration, index, sample)
        wanted.append(RolloutRequest(tasks[index], seed, plan.iteration, 0, index, sample))
    parts = [wanted[start : start + PART] for start in range(0, count, PART)]
    return [
        trajectory
        for number, part in enumerate(parts)
        for trajectory in _kept(plan.scratch / phase / f"{number}.parquet", part, roll, progress)
    ]


def _kept(
    file: Path,
    wanted: Sequence[RolloutRequest],
    roll: Callable[[Sequence[RolloutRequest]], list[Episode]],
    progress: Callable[[int], object],
) -> list[Trajectory]:
    """The episodes in ``file``; if it does not exist, play the ``wanted`` episodes by ``roll`` and write it."""
    if file.exists():
        played = read_trajectories(file)
        progress(len(played))
        return played
    played = [episode.trajectory for episode in roll(wanted)]
    write_trajectories(file, played)
    return played

"""Episodes before training: the policy plays what training steps would, the failure agent what the policy failed."""

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

PART = 128  # episodes of the failure agent that are kept together


@dataclass(frozen=True)
class Rehearsal:
    """What to play: the ``tasks`` of an iteration, after the attempts ``before``; ``scratch`` is a folder of this very one."""

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
    """The episodes of ``config.steps`` training steps, by step, group and attempt, with the seeds that they have in training.

    A step's episodes are kept in the scratch folder, so that a killed rehearsal goes on after its last whole step. ``progress``
    is called with the number of episodes that have just ended.
    """
    found: list[Trajectory] = []
    records = recorded({}, plan.before)
    roll = partial(rollout, policy, environment, limits=limits, progress=progress)
    for step in range(config.steps):
        now = Step.of(plan.seed, plan.iteration, step, config.tasks_per_step, shares_of(environment))
        tasks = islice(stream(plan.tasks, records, config, now), config.tasks_per_step)
        wanted = requests(enumerate(tasks), config.group_size, plan.seed, plan.iteration, step)
        played = _kept(plan.scratch / f"{step}.parquet", wanted, roll, progress)
        records = recorded(records, attempts(played))
        found += played
    return found


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
    """``count`` episodes of ``tasks``, each as often as any other or once more, with seeds of their own by ``phase``.

    They are kept in the scratch folder in parts, so that a killed run goes on after its last whole part.
    """
    roll = partial(rollout, policy, environment, limits=limits, progress=progress)
    wanted = []
    for number in range(count):
        sample, place = divmod(number, len(tasks))
        seed = derive_seed(plan.seed, phase, plan.iteration, place, sample)
        wanted.append(RolloutRequest(tasks[place], seed, plan.iteration, 0, place, sample))
    parts = [wanted[start : start + PART] for start in range(0, count, PART)]
    return [
        one
        for part, some in enumerate(parts)
        for one in _kept(plan.scratch / phase / f"{part}.parquet", some, roll, progress)
    ]


def _kept(
    file: Path,
    wanted: Sequence[RolloutRequest],
    roll: Callable[[Sequence[RolloutRequest]], list[Episode]],
    progress: Callable[[int], object],
) -> list[Trajectory]:
    """The episodes of ``file``; those that are ``wanted``, by ``roll``, if it is not there yet."""
    if file.exists():
        played = read_trajectories(file)
        progress(len(played))
        return played
    played = [one.trajectory for one in roll(wanted)]
    write_trajectories(file, played)
    return played

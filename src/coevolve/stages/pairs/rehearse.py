"""A rehearsal: the policy plays the tasks that training steps would, and learns nothing yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from coevolve.core.difficulty import recorded
from coevolve.core.params import Train
from coevolve.core.records import Attempt, Trajectory
from coevolve.core.task import Task
from coevolve.core.trajectories import read_trajectories, write_trajectories
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, rollout
from coevolve.stages.train.curriculum import Step, stream
from coevolve.stages.train.groups import attempts, requests


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
    for step in range(config.steps):
        file = plan.scratch / f"{step}.parquet"
        if file.exists():
            played = read_trajectories(file)
            progress(len(played))
        else:
            now = Step(plan.seed, plan.iteration, step, config.tasks_per_step)
            tasks = islice(stream(plan.tasks, records, config, now), config.tasks_per_step)
            wanted = requests(enumerate(tasks), config.group_size, plan.seed, plan.iteration, step)
            episodes = rollout(policy, environment, wanted, limits, progress=progress)
            played = [one.trajectory for one in episodes]
            write_trajectories(file, played)
        records = recorded(records, attempts(played))
        found += played
    return found

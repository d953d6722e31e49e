"""Groups of attempts at a task, for every learner: their seeds, their rewards, and whether they teach.

TRL normalises the advantages in a group, by the equation in grpo.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from coevolve.core.attempts import attempt_of
from coevolve.core.records import Attempt
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.rollout import Episode, RolloutRequest

Group = list[Episode]


@dataclass(frozen=True, slots=True)
class Gathered:
    """All groups that the agent ``played``, and those that were ``kept`` for training."""

    kept: list[Group]
    played: list[Group]

    @property
    def dropped(self) -> int:
        """The number of groups that teach nothing."""
        return sum(not teaches(group) for group in self.played)


def requests(
    numbered: Iterable[tuple[int, Task]], size: int, seed: int, iteration: int, step: int
) -> list[RolloutRequest]:
    """``size`` attempts at each task. A task's seeds depend on its number in the step and on no other task."""
    return [
        RolloutRequest(
            task, derive_seed(seed, "train", iteration, step, number, sample), iteration, step, number, sample
        )
        for number, task in numbered
        for sample in range(size)
    ]


def rewards(group: Group) -> list[float | None]:
    """The reward of each episode; None where the environment failed, which is not the agent's fault."""
    return [episode.trajectory.score if episode.trajectory.counts else None for episode in group]


def teaches(group: Group) -> bool:
    """Whether the rewards differ; otherwise every advantage in the group is zero."""
    return len({reward for reward in rewards(group) if reward is not None}) > 1


def attempts(trajectories: Iterable[Trajectory]) -> list[Attempt]:
    """The attempts at each task in each step, without the episodes that the environment failed.

    An attempt without any other episode has size 0.
    """
    scores: dict[tuple[str, int, int], list[float]] = {}
    for trajectory in trajectories:
        counted = scores.setdefault((trajectory.task_id, trajectory.iteration, trajectory.step), [])
        if trajectory.counts:
            counted.append(trajectory.score)
    return [attempt_of(*visit, values) for visit, values in scores.items()]

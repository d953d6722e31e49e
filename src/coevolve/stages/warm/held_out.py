"""The part of an environment's training tasks that nobody imitates, on which stage `warm` measures success."""

from collections.abc import Sequence

from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout, scored

SHARE = 5  # one of so many tasks is held out
MOST = 40  # tasks held out


def divided(environment: Environment, split: str, count: int, hold: bool = True) -> tuple[list[Task], list[Task]]:
    """The first ``count`` tasks of ``split`` that have a reference: those to imitate, and those held out.

    Each kind of task, by the tools of its reference, has its share in both. If there is only one task, both lists hold it.
    ``hold`` False holds out no task.
    """
    tasks = [task for task in environment.tasks(split) if any(environment.reference(task))][:count]
    if not hold:
        return tasks, []
    by_kind = sorted(tasks, key=lambda task: (task.tools, task.task_id))  # ids are hashes: a random order
    held = by_kind[SHARE // 2 :: max(SHARE, len(tasks) // MOST)]
    out = {task.task_id for task in held}
    return [task for task in tasks if task.task_id not in out] or tasks, held or tasks


def solves(policy: Policy | Replicas, environment: Environment, tasks: Sequence[Task], limits: Limits) -> list[bool]:
    """Whether ``policy`` solves each of ``tasks``, in one episode each."""
    episodes = scored(rollout(policy, environment, [RolloutRequest(task, 0) for task in tasks], limits))
    return [is_success(episode.trajectory.score) for episode in episodes]

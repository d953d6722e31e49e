"""Episodes that GRPO clones beside its own attempts: what the agent must keep, and what it never finds.

An episode enters a batch as a row with a fixed advantage. Such a row has the gradient of the log-likelihood:
with ρ_t = 1 at sampling, ∇ρ_t A = A ∇log π(y_t).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from coevolve.core.records import Attempt
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.train.reference_tokens import Tokens, offered, tokens

FAILED = 2  # visits without a success after which a task's reference is taught
TASKS = 256  # of the split, which policies/0 plays


def own_successes(
    policy: Policy | Replicas, environment: Environment, split: str, limits: Limits, seed: int
) -> list[Trajectory]:
    """The successful episodes of one attempt at each of the split's first tasks that are in no panel."""
    held = {task.task_id for panel in environment.panels for task in environment.tasks(panel)}
    tasks = [task for task in environment.tasks(split) if task.task_id not in held][:TASKS]
    requests = [RolloutRequest(task, derive_seed(seed, "replay", number)) for number, task in enumerate(tasks)]
    played = [episode.trajectory for episode in rollout(policy, environment, requests, limits)]
    return [episode for episode in played if episode.counts and is_success(episode.score)]


def as_tokens(
    environment: Environment, tasks: Sequence[Task], episodes: Sequence[Trajectory], renderer: Renderer, room: int
) -> list[Tokens]:
    """``episodes`` of some of the ``tasks`` as ids, without those of more than ``room`` tokens."""
    wanted = {episode.task_id for episode in episodes}
    tools = offered(environment, [task for task in tasks if task.task_id in wanted])
    found = [tokens(renderer, tools[episode.task_id], episode) for episode in episodes]
    return [one for one in found if len(one) <= room]


def failed_visits(before: Counter[str], attempts: Iterable[Attempt]) -> Counter[str]:
    """How many of a task's latest visits held no success, by task, after further ``attempts`` in order."""
    counted = Counter(before)
    for attempt in attempts:
        if attempt.size:
            counted[attempt.task_id] = 0 if attempt.successes else counted[attempt.task_id] + 1
    return counted

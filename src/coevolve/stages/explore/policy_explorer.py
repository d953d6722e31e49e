"""The policy itself as explorer, without a second model: it attempts weak tasks in worlds it has not seen.

It is told nothing but the task's own words. What it does there that the environment accepts is kept, right or wrong for
the task: it is a chain of calls that works, around the weakness.
"""

from collections.abc import Iterator, Sequence

from coevolve.core.records import Exploration
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.explorer import accepted, found
from coevolve.stages.explore.requests import Request

AT_ONCE = 256  # requests that are played together


class PolicyExplorer:
    """See ``coevolve.stages.explore.explorer.Explorer``."""

    def __init__(
        self, environment: Environment, policy: Policy | Replicas, known: Knowledge, limits: Limits, max_calls: int
    ) -> None:
        self._environment = environment
        self._policy = policy
        self._known = known
        self._limits = limits
        self._max_calls = max_calls

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        for start in range(0, len(wanted), AT_ONCE):
            batch = wanted[start : start + AT_ONCE]
            requests = [
                RolloutRequest(
                    Task.create(one.task.environment, "exploration", one.task.turns, one.world, [[]]), one.seed
                )
                for one in batch
            ]
            episodes = rollout(self._policy, self._environment, requests, self._limits)
            for one, episode in zip(batch, episodes, strict=True):
                calls = accepted(episode.trajectory, self._known)[: self._max_calls]
                yield found(one, "policy", one.context, calls)

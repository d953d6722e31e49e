"""The policy itself as explorer, without a second model: it attempts weak tasks in worlds it has not seen.

It is told nothing but the task's own words. What it does there that the environment accepts is kept, right or wrong for
the task: it is a chain of calls that works, around the weakness. So it can be led by a task alone: where a request is made
around no weakness, the task is drawn by the tools that the guidance would have it go for.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from coevolve.core.records import Exploration
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import Means, accepted, record
from coevolve.stages.explore.guidance import draw_task
from coevolve.stages.explore.requests import Request

AT_ONCE = 256  # requests that are acted on together


class PolicyExplorer:
    """See ``coevolve.stages.explore.explorer.Explorer``."""

    def __init__(
        self,
        environment: Environment,
        policy: Policy | Replicas,
        known: Knowledge,
        tasks: Sequence[Task],
        limits: Limits,
        max_calls: int,
    ) -> None:
        self._environment = environment
        self._policy = policy
        self._known = known
        self._tasks = tasks
        self._limits = limits
        self._max_calls = max_calls

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        for start in range(0, len(wanted), AT_ONCE):
            batch = [self._led(request) for request in wanted[start : start + AT_ONCE]]
            rollouts = [
                RolloutRequest(
                    Task.create(request.task.environment, "exploration", request.task.turns, request.world, [[]]),
                    request.seed,
                )
                for request in batch
            ]
            episodes = rollout(self._policy, self._environment, rollouts, self._limits)
            for request, episode in zip(batch, episodes, strict=True):
                calls = accepted(episode.trajectory, self._known)[: self._max_calls]
                yield record(request, "policy", calls)

    def _led(self, request: Request) -> Request:
        """``request`` with the task to attempt."""
        if request.signal is not None:
            return request
        rng = random.Random(request.seed)
        task = draw_task(self._tasks, request.tools, rng)
        return replace(request, task=task, world=self._environment.fresh_world(task, rng.randrange(2**62)))


def make(config: Explore, means: Means) -> PolicyExplorer:
    limits = Limits.of(means.acting)
    return PolicyExplorer(means.environment, means.policy(), means.known, means.tasks, limits, config.max_calls)

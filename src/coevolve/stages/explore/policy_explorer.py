"""The policy itself as explorer, without a second model: it attempts weak tasks in worlds that it has not seen.

The prompt holds only the task's words. Calls that the environment accepts are kept, whether they solve the task or not:
they are a working chain around the weakness. A task is the only guidance that this explorer takes. If a request is about
no weakness, the explorer draws the task by the guidance's weights of its tools.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from coevolve.core.records import Exploration
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import Knowledge
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import Means, accepted, record
from coevolve.stages.explore.guidance import draw_task
from coevolve.stages.explore.requests import Request

AT_ONCE = 256  # requests per rollout


@dataclass(frozen=True)
class PolicyExplorer:
    """See ``coevolve.stages.explore.explorer.Explorer``."""

    environment: Environment
    policy: Policy | Replicas
    knowledge: Knowledge
    tasks: Sequence[Task]
    limits: Limits
    max_calls: int

    def explore(self, requests: Sequence[Request]) -> Iterator[Exploration]:
        for start in range(0, len(requests), AT_ONCE):
            batch = [self._with_task(request) for request in requests[start : start + AT_ONCE]]
            rollouts = [
                RolloutRequest(
                    Task.create(request.task.environment, "exploration", request.task.turns, request.world, [[]]),
                    request.seed,
                )
                for request in batch
            ]
            episodes = rollout(self.policy, self.environment, rollouts, self.limits)
            for request, episode in zip(batch, episodes, strict=True):
                calls = accepted(episode.trajectory, self.knowledge)[: self.max_calls]
                yield record(request, "policy", calls)

    def _with_task(self, request: Request) -> Request:
        """``request`` with the task to attempt."""
        if request.signal is not None:
            return request
        rng = random.Random(request.seed)
        task = draw_task(self.tasks, request.tools, rng)
        return replace(request, task=task, world=self.environment.fresh_world(task, rng.randrange(2**62)))


def make(config: Explore, means: Means) -> PolicyExplorer:
    limits = Limits.of(means.acting)
    return PolicyExplorer(means.environment, means.policy(), means.knowledge, means.tasks, limits, config.max_calls)

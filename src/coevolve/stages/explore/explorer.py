"""Explorers answer requests with chains of calls that the environment accepted.

A request holds what the guidance asks for, and every explorer follows it. Explorers by name: explorers.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from coevolve.core.records import Exploration, Reflection
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import Trajectory
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge, fruitless
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.requests import Request


class Explorer(Protocol):
    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        """What was found for each request, in order; an exploration without calls found nothing."""
        ...


@dataclass(frozen=True)
class Means:
    """What an explorer may use: the environment with its tasks, and how the agent plays.

    ``policy`` opens the agent's policy; ``meter`` holds the endpoint, if one is asked, and counts its requests.
    """

    environment: Environment
    known: Knowledge
    tasks: Sequence[Task]
    acting: PolicySection
    policy: Callable[[], Policy | Replicas]
    meter: Meter


class MakeExplorer(Protocol):
    def __call__(self, config: Explore, means: Means) -> Explorer: ...


def record(
    request: Request,
    explorer: str,
    calls: Sequence[CallOutcome],
    goals: Sequence[str] = (),
    reflection: Reflection | None = None,
    prompts: Sequence[str] = (),
) -> Exploration:
    """The record of what an explorer did for ``request``."""
    return Exploration(
        exploration_id=request.exploration_id,
        environment=request.task.environment,
        iteration=request.iteration,
        signal_ids=[request.signal.signal_id] if request.signal else [],
        task_id=request.task.task_id,
        world=request.world,
        kind=request.signal.kind if request.signal else None,
        focus=request.focus,
        goals=list(goals),
        calls=list(calls),
        explorer=explorer,
        reflection=reflection,
        prompts=list(prompts),
    )


def accepted(trajectory: Trajectory, known: Knowledge) -> list[CallOutcome]:
    """The calls of an episode that the environment accepted, without lookups that found nothing and without the end."""
    return [
        call for call in trajectory.calls if call.ok and call.name != known.terminal and not fruitless(call.observation)
    ]


def explore(explorer: Explorer, wanted: Sequence[Request], progress: Callable[[int], object]) -> list[Exploration]:
    """Those explorations that found something, in the order of ``wanted``."""
    kept = []
    for exploration in explorer.explore(wanted):
        if exploration.calls:
            kept.append(exploration)
        progress(1)
    return kept

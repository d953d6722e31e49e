"""Explorers answer requests with chains of calls that the environment accepted.

``scripted`` needs no model, ``endpoint`` lets an LLM reflect and act, ``policy`` lets the policy itself attempt weak tasks
in fresh worlds. All heed the guidance by what a request holds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from coevolve.core.params import Explore, PolicySection
from coevolve.core.records import Exploration, Reflection, Trajectory
from coevolve.core.task import CallOutcome, Task
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge, fruitless, learn
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.stages.explore.requests import Request


class Explorer(Protocol):
    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        """What was found for each request, in order; an exploration without calls found nothing."""
        ...


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


def make_explorer(
    config: Explore,
    acting: PolicySection,
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    policy: Callable[[], Policy | Replicas],
    meter: Meter,
) -> Explorer:
    """The explorer that the section `explore` names; ``policy`` opens the one that `policy` acts with."""
    known = learn(environment, tasks, trajectories)
    if config.explorer == "endpoint":
        from coevolve.stages.explore.endpoint_explorer import EndpointExplorer

        assert meter.endpoint is not None
        return EndpointExplorer(environment, meter.endpoint, known, config, acting.max_seconds, meter.counts)
    if config.explorer == "policy":
        from coevolve.stages.explore.policy_explorer import PolicyExplorer

        return PolicyExplorer(environment, policy(), known, tasks, Limits.of(acting), config.max_calls)
    from coevolve.stages.explore.scripted_explorer import ScriptedExplorer

    return ScriptedExplorer(environment, known, config)

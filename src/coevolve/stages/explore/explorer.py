"""Explorers answer requests with chains of calls that the environment accepted.

``scripted`` needs no model, ``endpoint`` lets an LLM reflect and act, ``policy`` lets the policy itself attempt weak tasks
in fresh worlds. All heed the guidance by what a request holds.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from coevolve.core.params import Explore, PolicySection
from coevolve.core.records import Exploration, Reflection, Trajectory
from coevolve.core.task import CallOutcome, Task
from coevolve.core.workers import Engine, Workers
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge, fruitless, learn
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.stages.explore.requests import Request

CHUNK = 64  # requests that a worker takes at a time
MANY = 10_000  # explorations whose sharing out is worth the start of workers: the scripted explorer makes some 700 a second


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


class Several:
    """An explorer that every worker of ``engine`` has, as ``make(*arguments)``; a request is answered by whichever is free."""

    def __init__(self, engine: Engine, make: Callable[..., "Listing"], *arguments: Any) -> None:
        self._hire = partial(Workers, engine, make, *arguments)

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        chunks = [wanted[start : start + CHUNK] for start in range(0, len(wanted), CHUNK)]
        with self._hire() as workers:
            for found in workers.map(partial(workers.call, "explore_all"), chunks):
                yield from found


class Listing(Explorer, Protocol):
    def explore_all(self, wanted: Sequence[Request]) -> list[Exploration]:
        """As ``explore``, all at once."""
        ...


def make_explorer(
    config: Explore,
    acting: PolicySection,
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    policy: Callable[[], Policy | Replicas],
    meter: Meter,
    engine: Engine | None = None,
) -> Explorer:
    """The explorer that the section `explore` asks for; ``policy`` opens the one that `policy` acts with, and ``engine`` has the
    workers that share the scripted explorer's work, where it is much (``config.explorations``).
    """
    known = learn(environment, tasks, trajectories)
    explorer: Explorer
    if config.explorer == "endpoint":
        from coevolve.stages.explore.endpoint_explorer import EndpointExplorer

        assert meter.endpoint is not None
        explorer = EndpointExplorer(environment, meter.endpoint, known, config, acting.max_seconds, meter.counts)
    elif config.explorer == "policy":
        from coevolve.stages.explore.policy_explorer import PolicyExplorer

        explorer = PolicyExplorer(environment, policy(), known, tasks, Limits.of(acting), config.max_calls)
    else:
        from coevolve.stages.explore.scripted_explorer import ScriptedExplorer, open_scripted

        if engine is not None and environment.capacity is None and config.explorations >= MANY:
            explorer = Several(engine, open_scripted, environment.name, known, config)
        else:
            explorer = ScriptedExplorer(environment, known, config)
    if config.stones:
        from coevolve.stages.explore.stones import Stones

        explorer = Stones(environment, known, explorer)
    return explorer

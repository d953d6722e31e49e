"""Explorers answer requests with chains of calls that the environment accepted.

A request carries the guidance's wishes, and every explorer follows it. explorers.py lists the explorers by name. ``plan`` and
``carry_out`` are the explorations of an iteration.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from coevolve.core.interruptions import HOPELESS, counted, hopeless
from coevolve.core.records import Exploration, Generation, Reflection, Signal
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import Trajectory
from coevolve.core.untrusted import one_line
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import Knowledge, fruitless, learn
from coevolve.policies.config import PolicySection
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorers import EXPLORERS
from coevolve.stages.explore.requests import Request, requests, written


class Explorer(Protocol):
    """It may have a list ``causes`` with a text for each exploration that the environment interrupted."""

    def explore(self, requests: Sequence[Request]) -> Iterator[Exploration]:
        """One exploration per request, in order. An exploration without calls found nothing."""
        ...


@dataclass(frozen=True)
class Means:
    """The means of an explorer: the environment with the facts about its tools, and the limits of an episode.

    ``meter`` holds the endpoint, if there is one, and counts its requests.
    """

    environment: Environment
    knowledge: Knowledge
    acting: PolicySection
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
    """The record of an explorer's calls for ``request``."""
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


def accepted(trajectory: Trajectory, knowledge: Knowledge) -> list[CallOutcome]:
    """The accepted calls of an episode, without lookups that found nothing and without the call that ends it."""
    return [
        call
        for call in trajectory.calls
        if call.ok and call.name != knowledge.terminal and not fruitless(call.observation)
    ]


def explore(explorer: Explorer, requests: Sequence[Request], progress: Callable[[int], object]) -> list[Exploration]:
    """The explorations with at least one accepted call, in the order of ``requests``."""
    kept = []
    for exploration in explorer.explore(requests):
        if exploration.calls:
            kept.append(exploration)
        progress(1)
    return kept


@dataclass(frozen=True)
class PlannedExploration:
    """The ``requests`` in ``environment``, with its tasks and the trajectories at them."""

    environment: Environment
    tasks: Sequence[Task]
    trajectories: Sequence[Trajectory]
    requests: list[Request]


def plan(
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    signals: Sequence[Signal],
    specs: Sequence[Generation],
    config: Explore,
    t: int,
    seed: int,
) -> PlannedExploration:
    """The requests of iteration ``t``; ``specs`` are the task generator's."""
    if config.guidance == "generator":
        batch = written(environment, tasks, specs, t, seed)
    else:
        batch = requests(environment, tasks, trajectories, signals, config, t, seed)
    return PlannedExploration(environment, tasks, trajectories, batch)


def carry_out(
    planned: PlannedExploration,
    config: Explore,
    acting: PolicySection,
    meter: Meter,
    progress: Callable[[int], object],
) -> tuple[list[Exploration], list[str], list[str]]:
    """The explorations that found something, in the order of the requests, and two notes at most.

    The first is about explorations that the environment interrupted, the second about tools that none reached. Raises a
    CoevolveError if the environment interrupts nearly all explorations before they find anything.
    """
    make: MakeExplorer = EXPLORERS.find(config.explorer, "make")
    environment = planned.environment
    knowledge = learn(environment, planned.tasks, planned.trajectories)
    explorer = make(config, Means(environment, knowledge, acting, meter))
    explorations, total = explore(explorer, planned.requests, progress), len(planned.requests)
    causes = getattr(explorer, "causes", [])
    if len(explorations) <= (1.0 - HOPELESS) * total:
        hopeless(causes, total, "explorations")
    tools = [tool["function"]["name"] for tool in environment.tools()]
    reached = {call.name for exploration in explorations for call in exploration.calls}
    missed = [name for name in tools if name not in reached | {knowledge.terminal}]
    listed = one_line(", ".join(missed[:5]))
    note = f"tools that no exploration reached: {len(missed)} of {len(tools)} ({listed})"
    return explorations, counted(causes, total, "explorations"), [note] if missed else []

"""The explorations of an iteration: the requests, and what the explorer finds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.core.records import Exploration, Generation, Signal
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.core.untrusted import one_line
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.policies.config import PolicySection
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import MakeExplorer, Means, explore
from coevolve.stages.explore.explorers import EXPLORERS
from coevolve.stages.explore.requests import Request, requests, written


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
) -> tuple[list[Exploration], list[str]]:
    """The explorations that found something, in the order of the requests, and a note about the tools that none reached."""
    make: MakeExplorer = EXPLORERS.find(config.explorer, "make")
    environment = planned.environment
    knowledge = learn(environment, planned.tasks, planned.trajectories)
    explorer = make(config, Means(environment, knowledge, acting, meter))
    explorations = explore(explorer, planned.requests, progress)
    tools = [tool["function"]["name"] for tool in environment.tools()]
    reached = {call.name for exploration in explorations for call in exploration.calls}
    missed = [name for name in tools if name not in reached | {knowledge.terminal}]
    listed = one_line(", ".join(missed[:5]))
    note = f"tools that no exploration reached: {len(missed)} of {len(tools)} ({listed})"
    return explorations, [note] if missed else []

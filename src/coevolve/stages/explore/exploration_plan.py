"""The explorations of an iteration: which requests each environment gets, and what its explorer finds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.core.records import Exploration, Generation, Signal
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.core.untrusted import one_line
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.environments.mixture import split
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import MakeExplorer, Means, explore
from coevolve.stages.explore.explorers import EXPLORERS
from coevolve.stages.explore.requests import Request, requests, written


@dataclass(frozen=True)
class PlannedExploration:
    """The requests in one environment, with its tasks and the trajectories at them."""

    environment: Environment
    tasks: list[Task]
    trajectories: list[Trajectory]
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
) -> list[PlannedExploration]:
    """The requests of iteration ``t``, for each environment of a mixture that has a task to start from.

    ``specs`` are the task generator's.
    """
    plans = []
    for part, count in split(environment, config.explorations):
        if not (part_tasks := part.own(tasks)):
            continue
        played = part.played(trajectories, part_tasks)
        if config.guidance == "generator":
            batch = written(part.environment, part_tasks, specs, t, seed)
        else:
            part_config = config.model_copy(update={"explorations": count})
            part_signals = part.about(signals, part_tasks, played)
            batch = requests(part.environment, part_tasks, played, part_signals, part_config, t, part.seed(seed))
        plans.append(PlannedExploration(part.environment, part_tasks, played, batch))
    return plans


def carry_out(
    plans: Sequence[PlannedExploration],
    config: Explore,
    acting: PolicySection,
    policy: Callable[[], Policy | Replicas],
    meter: Meter,
    progress: Callable[[int], object],
) -> tuple[list[Exploration], list[str]]:
    """The explorations that found something, in the order of the requests, and a note about the tools that none reached."""
    make: MakeExplorer = EXPLORERS.find(config.explorer, "make")
    explorations, notes = [], []
    for part in plans:
        knowledge = learn(part.environment, part.tasks, part.trajectories)
        explorer = make(config, Means(part.environment, knowledge, part.tasks, acting, policy, meter))
        found = explore(explorer, part.requests, progress)
        explorations += found
        tools = [tool["function"]["name"] for tool in part.environment.tools()]
        reached = {call.name for exploration in found for call in exploration.calls}
        if missed := [name for name in tools if name not in reached | {knowledge.terminal}]:
            listed = one_line(", ".join(missed[:5]))
            notes.append(f"tools that no exploration reached: {len(missed)} of {len(tools)} ({listed})")
    return explorations, notes

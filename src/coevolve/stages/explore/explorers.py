"""Explorers by name. Each is a module with a function ``make`` that has the signature of ``MakeExplorer``."""

from collections.abc import Callable, Sequence
from importlib import import_module

from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import Explorer, MakeExplorer, Means

EXPLORERS = {
    "scripted": "coevolve.stages.explore.scripted_explorer",
    "endpoint": "coevolve.stages.explore.endpoint_explorer",
    "policy": "coevolve.stages.explore.policy_explorer",
}


def make_explorer(
    config: Explore,
    acting: PolicySection,
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    policy: Callable[[], Policy | Replicas],
    meter: Meter,
) -> Explorer:
    """The explorer that ``explore.explorer`` names. It learns the tools from ``tasks`` and ``trajectories``."""
    make: MakeExplorer = import_module(EXPLORERS[config.explorer]).make
    knowledge = learn(environment, tasks, trajectories)
    return make(config, Means(environment, knowledge, tasks, acting, policy, meter))

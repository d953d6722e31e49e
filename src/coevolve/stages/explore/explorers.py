"""Explorers by name: a module each, with a function ``make`` of the signature of ``explorer.Make``."""

from collections.abc import Callable, Sequence
from importlib import import_module

from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.knowledge import learn
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
    """The explorer that ``explore.explorer`` names. It knows the tools as ``tasks`` and ``trajectories`` show them."""
    make: MakeExplorer = import_module(EXPLORERS[config.explorer]).make
    known = learn(environment, tasks, trajectories)
    return make(config, Means(environment, known, tasks, acting, policy, meter))

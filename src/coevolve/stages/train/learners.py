"""Find learners by name. Other packages add learners with the entry point group ``coevolve.learners``: NAME = "MODULE".

A learner is a module with two things. A class that inherits ``LearnerConfig`` holds the learner's own keys; params.yaml sets
them in a section of the learner's name. ``learn`` is a function with the signature of ``learner.Learner``. Stages that train
nothing import the module for its class, so a module that needs torch imports it inside ``learn``.
"""

from importlib import import_module
from types import ModuleType

from coevolve.core.errors import CoevolveError
from coevolve.core.plugins import attempt, plugins
from coevolve.core.processes import available, prepare
from coevolve.core.section import LearnerConfig
from coevolve.stages.train.learner import Learner

GROUP = "coevolve.learners"
LEARNERS = {
    "grpo": "coevolve.stages.train.grpo",
    "dpo": "coevolve.stages.train.dpo",
    "sft": "coevolve.stages.train.sft",
}


def names() -> list[str]:
    """All learners: built-in learners first, then those of other packages."""
    return [*LEARNERS, *sorted(set(plugins(GROUP)) - set(LEARNERS))]


def config_of(name: str) -> type[LearnerConfig]:
    """The class of a learner's section."""
    module = _module(name)
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, LearnerConfig):
            return value
    raise CoevolveError(f"learner {name}: {module.__name__} has no class that inherits LearnerConfig")


def learner(name: str) -> Learner:
    """The function that ``train.learner`` names."""
    if available() > 1:
        prepare("coevolve.stages.train.parallel_grpo")  # worker processes import it while this process does
    learn: Learner | None = getattr(_module(name), "learn", None)
    if learn is None:
        raise CoevolveError(f"learner {name}: {_module_name(name)} has no function learn")
    return learn


def _module(name: str) -> ModuleType:
    module: ModuleType = attempt(
        lambda: import_module(_module_name(name)), f"learner {name}: {_module_name(name)} cannot be imported"
    )
    return module


def _module_name(name: str) -> str:
    if name in LEARNERS:
        return LEARNERS[name]
    if point := plugins(GROUP).get(name):
        return point.value
    raise CoevolveError(f"learner {name!r} is unknown; expected one of: {', '.join(names())}")

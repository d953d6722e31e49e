"""Find learners by name. Other packages add learners with the entry point group ``coevolve.learners``: NAME = "MODULE".

A learner is a module with two things. A class that inherits ``LearnerConfig`` holds the learner's own keys; params.yaml sets
them in a section of the learner's name. ``learn`` is a function with the signature of ``learner.Learner``. Stages that train
nothing import the module for its class, so a module that needs torch imports it inside ``learn``.
"""

from coevolve.core.errors import CoevolveError
from coevolve.core.plugins import Registry
from coevolve.core.section import LearnerConfig

LEARNERS = Registry(
    "learner",
    "coevolve.learners",
    {
        "grpo": "coevolve.stages.train.grpo",
        "dpo": "coevolve.stages.train.dpo",
        "sft": "coevolve.stages.train.sft",
        "import": "coevolve.rollouts.import_learner",
    },
)


def config_of(name: str) -> type[LearnerConfig]:
    """The class of a learner's section."""
    module = LEARNERS.module(name)
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, LearnerConfig):
            return value
    raise CoevolveError(f"learner {name}: {module.__name__} has no class that inherits LearnerConfig")

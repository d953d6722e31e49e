"""Find learners by name. Other packages add learners with the entry point group ``coevolve.learners``: NAME = "MODULE".

A learner is a module with two things. A class that inherits ``LearnerConfig`` holds the learner's own keys; params.yaml sets
them in a section of the learner's name. ``learn`` is a function with the signature of ``learner.Learner``. Stages that train
nothing import the module for its class, so a module that needs torch imports it inside ``learn``. The classes of our own
learners are in config.py, so their modules are imported to train alone.
"""

from coevolve.core.plugins import Registry

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

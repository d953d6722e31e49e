"""Shared by tests of the generator: miniworld's tools and small updates."""

from pathlib import Path

from coevolve.environments.knowledge import learn
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.spec import tools
from coevolve.stages.train.learner import Job, Shared
from tests.unit.stages.train.small import ACTING, PARAMS, WORLD, changed

TASKS = WORLD.tasks("seed")[:16]
TOOLS = tools(WORLD, learn(WORLD, TASKS))
OWN = PARAMS.generate.model_copy(update={"model": "tiny", "steps": 4, "batch": 8})


def shared(own: Generate = OWN) -> Shared:
    return Shared(changed(steps=own.steps, save_steps=2), ACTING, PARAMS.launch)


def job(folder: Path, first: Path) -> Job:
    nothing = folder / "none"
    return Job(1, 0, first, TASKS, folder / "learned", nothing, nothing, folder / "scratch", first)

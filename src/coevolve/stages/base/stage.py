"""Stage `base`: the agent to start from.

Writes policies/base: the embedded tiny policy, or a pinned pointer to the model that `base.model` names. A project takes the
tiny policy from the installed package; the repository, or a changed section `base`, trains it from scratch. For a user's own
environment the stage trains a tiny policy there.
The tiny policy stays in scratch/base for the next run with the same section, because DVC's run cache keeps no output that is in
git.
"""

import shutil
from functools import partial

from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.plugins import Registry
from coevolve.core.resources import resource
from coevolve.core.scratch import once, scratch
from coevolve.policies.pretrained import point
from coevolve.stages.base.config import Base
from coevolve.stages.schema import Params

RECIPES = Registry(
    "recipe",
    "coevolve.recipes",
    {"miniworld": "coevolve.stages.base.recipe", "own": "coevolve.stages.base.own"},
)


def main(params: Params) -> None:
    if params.base.model != "tiny":
        point(params.base.model, params.base.revision, Paths.base)
        return
    embedded = resource("policies/base")
    if not params.own and params.base == Base() and embedded.is_dir() and embedded.resolve() != Paths.base.resolve():
        shutil.copytree(embedded, Paths.base, dirs_exist_ok=True)
        return
    make = partial(RECIPES.find(params.recipe, "make"), params.base, **({"own": params.own} if params.own else {}))
    policy = once(scratch() / "base" / scratch_key("base", None, params), make)
    shutil.copytree(policy, Paths.base, dirs_exist_ok=True)

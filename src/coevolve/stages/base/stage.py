"""Stage `base`: the agent to start from.

Writes policies/base: the embedded tiny policy, trained from scratch, or a pinned pointer to the model that `base.model` names.
The tiny policy stays in scratch/base, for the next run with the same section: DVC's run cache keeps no output that is in git.
"""

import shutil
from functools import partial

from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import once, scratch
from coevolve.policies.pretrained import point
from coevolve.stages.base.recipe import make
from coevolve.stages.params import Params


def main(params: Params) -> None:
    if params.base.model != "tiny":
        point(params.base.model, params.base.revision, Paths.base)
        return
    policy = once(scratch() / "base" / scratch_key("base", None, params), partial(make, params.base))
    shutil.copytree(policy, Paths.base, dirs_exist_ok=True)

"""Stage `base`: the agent to start from. Writes policies/base: the embedded tiny policy, made from nothing, or a pointer to
the model that `base.model` names, pinned.

What is made stays in scratch/base, for the next run with the same section: DVC's run cache keeps no output that is in git.
"""

import shutil
from functools import partial
from pathlib import Path

from coevolve.core.arithmetic import in_effect
from coevolve.core.hashing import content_hash
from coevolve.core.imports import digest
from coevolve.core.params import Params
from coevolve.core.paths import Paths
from coevolve.core.scratch import once, scratch
from coevolve.core.stage import run
from coevolve.policies.pretrained import point
from coevolve.stages.base.recipe import make


def main(params: Params) -> None:
    if params.base.model != "tiny":
        point(params.base.model, params.base.revision, Paths.base)
        return
    # what another code or arithmetic made is another policy
    key = content_hash([params.base.model_dump(), in_effect().name, digest(Path(__file__).resolve())])
    made = once(scratch() / "base" / key, partial(make, params.base))
    shutil.copytree(made, Paths.base, dirs_exist_ok=True)


if __name__ == "__main__":
    run(main, __doc__)

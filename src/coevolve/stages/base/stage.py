"""Stage `base`: the agent to start from.

Writes policies/base: a copy of the policy that a package ships under the name `base.model`, as `tiny`, or a pinned pointer to the
model that `base.model` names.
"""

import shutil

from coevolve.core.paths import Paths
from coevolve.policies.pretrained import point, shipped
from coevolve.stages.schema import Params


def main(params: Params) -> None:
    if policy := shipped(params.base.model):
        shutil.copytree(policy, Paths.base, dirs_exist_ok=True)
    else:
        point(params.base.model, params.base.revision, Paths.base)

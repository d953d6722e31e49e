"""Stage `base`: the agent to start from. Writes policies/0: the embedded tiny policy, made from nothing, or a pointer to
the model that `base.model` names, pinned."""

from coevolve.core.params import Params
from coevolve.core.paths import Paths
from coevolve.core.stage import run
from coevolve.policies.pretrained import point
from coevolve.stages.base.recipe import make


def main(params: Params) -> None:
    if params.base.model == "tiny":
        make(params.base, Paths.policy(0))
    else:
        point(params.base.model, params.base.revision, Paths.policy(0))


if __name__ == "__main__":
    run(main, __doc__)

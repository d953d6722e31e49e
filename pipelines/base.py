"""Stage `base`: the agent to start from. Writes policies/0: the embedded tiny policy, made from nothing, or a pointer to
the model that `base.model` names, pinned."""

from coevolve.files import Paths
from coevolve.params import Params
from coevolve.policies.pretrained import point
from coevolve.policies.tiny.recipe import make
from coevolve.stage import run


def main(params: Params) -> None:
    if params.base.model == "tiny":
        make(params.base, Paths.policy(0))
    else:
        point(params.base.model, params.base.revision, Paths.policy(0))


if __name__ == "__main__":
    run(main, __doc__)

"""Stage `base`: the embedded tiny policy, from nothing. Writes policies/0, a transformers model directory."""

from coevolve.files import Paths
from coevolve.params import Params
from coevolve.policies.tiny.recipe import make
from coevolve.stage import run


def main(params: Params) -> None:
    make(params.base, Paths.policy(0))


if __name__ == "__main__":
    run(main, __doc__)

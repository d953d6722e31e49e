"""Stage `code`: write a digest of every other stage's code and parameters to data/code/STAGE.json, which DVC compares.

It runs whenever a source file or a parameter changes, and takes seconds. A stage runs again only if its own digest differs:
a changed comment reruns nothing, and another GRPO loss reruns only training.
"""

from coevolve.core.io import write_json
from coevolve.core.paths import Paths
from coevolve.core.pipeline import check_version
from coevolve.stages.code.digest import digest, names
from coevolve.stages.schema import Params


def main(params: Params) -> None:
    check_version(params.iterations)
    for stage in names():
        write_json(Paths.code(stage), digest(stage, params))

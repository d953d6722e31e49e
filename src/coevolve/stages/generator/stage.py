"""Stage `generator`: the task generator before any training.

Writes generators/0: nothing, a pinned pointer to the model that `generate.model` names, or the tiny generator, trained for the
environment's tools. The tiny generator stays in scratch/generator, for the next run in the same environment.
"""

from coevolve.core.io import read_tasks
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.environments.fingerprint import open_environment
from coevolve.policies import helper_model
from coevolve.stages.generator.tiny_generator import IDLE, NONE, start
from coevolve.stages.schema import Params


def main(params: Params) -> None:
    model, revision = params.generate.model, params.generate.revision
    if model == NONE:
        helper_model.start(Paths.generator(0))
        print(IDLE)
        return
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(0), environment.name, least=1)
    start(Paths.generator(0), model, revision, environment, tasks, scratch_key("generator", None, params))

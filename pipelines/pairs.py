"""Stage `pairs`: policies/t plays the tasks of iteration t, and its failures are put beside what is right.

Writes data/t/pairs: pairs.jsonl, rehearsals.parquet and references.parquet, all empty for a learner that plays by itself. Run
again after a kill, it goes on after the last step that it has played.
"""

import shutil
from pathlib import Path

from coevolve.core.arithmetic import in_effect
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.imports import digest
from coevolve.core.io import read_jsonl, read_tasks
from coevolve.core.params import Params
from coevolve.core.paths import Paths
from coevolve.core.records import Attempt
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage import run_iteration
from coevolve.environments.fingerprint import open_environment
from coevolve.policies.loading import open_policy
from coevolve.rollout import Limits
from coevolve.stages.pairs.choose import LEARNERS
from coevolve.stages.pairs.make import make, write
from coevolve.stages.pairs.rehearse import Rehearsal


def main(params: Params, t: int) -> None:
    if params.train.learner not in LEARNERS:
        write(t)
        return
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment, least=1)
    before = sorted(read_jsonl(Paths.attempts(t), Attempt), key=lambda one: (one.iteration, one.step))
    sections = [section.model_dump() for section in (params.train, params.policy)]
    files = [*map(file_hash, (Paths.environment, Paths.tasks(t), Paths.attempts(t))), policy_hash(Paths.policy(t))]
    fingerprint = content_hash([params.seed, t, *sections, in_effect().name, digest(Path(__file__).resolve()), *files])
    with claim(scratch() / "pairs" / fingerprint) as folder:
        policy = open_policy(Paths.policy(t), params.policy, params.train.temperature)
        plan = Rehearsal(params.seed, t, tasks, before, folder)
        made = make(policy, environment, plan, params.train, params.pairs, Limits.of(params.policy))
        write(t, made, in_effect().name)
        shutil.rmtree(folder)


if __name__ == "__main__":
    run_iteration(main, __doc__)

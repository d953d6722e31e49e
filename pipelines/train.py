"""Stage `train`: GRPO on the tasks of iteration t, from policies/t.

Writes policies/next, data/t/trajectories.parquet and data/t/train_metrics.jsonl. Checkpoints are in scratch/train:
run again after a kill, it goes on from the last one. On several processes by the section `launch` of params.yaml.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from coevolve.core import launch
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.imports import digest
from coevolve.core.io import read_tasks
from coevolve.core.params import Params
from coevolve.core.paths import Paths
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage import run_iteration
from coevolve.core.stage_summary import write_summary
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment
from coevolve.tracking.run import start


def main(params: Params, t: int) -> int:
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment)
    parent, policy, config = Paths.policy(t), params.policy, params.train
    inputs = [params.seed, t, config.model_dump(), policy.model_dump(), params.launch.model_dump()]
    # what another code, environment, dataset or parent left half-done is not gone on with
    hashes = [
        digest(Path(__file__).resolve()),
        *map(file_hash, (Paths.environment, Paths.tasks(t))),
        policy_hash(parent),
    ]
    fingerprint = content_hash([*inputs, *hashes])
    place = scratch() / "train" / fingerprint
    if launch.inside():
        return _train(params, environment, tasks, t, fingerprint, launch.folder(place))
    if launch.machine() > 0:
        return launch.spawn(params.launch, __file__, str(t))
    with claim(place) as folder:
        if launch.wanted(params.launch):
            return launch.spawn(params.launch, __file__, str(t), folder=folder)
        return _train(params, environment, tasks, t, fingerprint, folder)


def _train(
    params: Params, environment: Environment, tasks: Sequence[Task], t: int, fingerprint: str, folder: Path
) -> int:
    from coevolve.core.io import read_jsonl_objects
    from coevolve.stages.train.figures import summary
    from coevolve.stages.train.grpo import Job, train

    parent, policy, config = Paths.policy(t), params.policy, params.train
    job = Job(
        iteration=t,
        seed=params.seed,
        parent=parent,
        tasks=tasks,
        policy=Paths.policy(t + 1),
        trajectories=Paths.trajectories(t),
        metrics=Paths.data(t) / "train_metrics.jsonl",
        scratch=folder,
    )
    run = start(params.tracking, f"train/{t}", {"coevolve.fingerprint": fingerprint}) if launch.is_main() else None
    with run or nullcontext() as tracked:
        if tracked:
            place = {"seed": params.seed, "iteration": t, "environment": params.environment}
            tracked.params({**place, **config.model_dump(), **params.launch.model_dump()})
            tracked.dataset(Paths.tasks(t), "training")
        train(
            config,
            policy,
            params.launch,
            environment,
            job,
            lambda step, figures: tracked.metrics(figures, step) if tracked else None,
        )
    if launch.is_main():
        write_summary(summary(t, [row for _, row in read_jsonl_objects(job.metrics)], config.group_size))
    return 0


if __name__ == "__main__":
    run_iteration(main, __doc__)

"""Stage `train`: GRPO on the tasks of iteration t, from policies/t.

Writes policies/next, data/t/trajectories.parquet and data/t/train_metrics.jsonl. Checkpoints are in scratch/train:
run again after a kill, it goes on from the last one. On several processes by the section `launch` of params.yaml.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from coevolve import launch
from coevolve.environments import make
from coevolve.environments.base import Environment
from coevolve.files import Paths, claim, read_tasks, scratch
from coevolve.params import Params
from coevolve.records import Task, content_hash
from coevolve.stage import run_iteration
from coevolve.tracking import file_hash, policy_hash, start


def main(params: Params, t: int) -> int:
    environment = make(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment)
    parent, policy, knobs = Paths.policy(t), params.policy, params.train
    inputs = [params.seed, t, knobs.model_dump(), policy.model_dump(), params.launch.model_dump()]
    hashes = [environment.fingerprint, file_hash(Paths.tasks(t)), policy_hash(parent)]
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
    from coevolve.training.grpo import Job, train

    parent, policy, knobs = Paths.policy(t), params.policy, params.train
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
            tracked.params({**place, **knobs.model_dump(), **params.launch.model_dump()})
            tracked.dataset(Paths.tasks(t), "training")
        train(
            knobs,
            policy,
            params.launch,
            environment,
            job,
            lambda step, figures: tracked.metrics(figures, step) if tracked else None,
        )
    return 0


if __name__ == "__main__":
    run_iteration(main, __doc__)

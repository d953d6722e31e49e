"""Stage `train`: GRPO on the tasks of iteration t, from policies/t.

Writes policies/next, data/t/trajectories.parquet and data/t/train_metrics.jsonl. Checkpoints are in scratch/train:
run again after a kill, it goes on from the last one. On several processes by the section `launch` of params.yaml.
"""

from contextlib import nullcontext

from coevolve import launch
from coevolve.environments import make
from coevolve.files import Paths, read_tasks, scratch
from coevolve.params import Params
from coevolve.records import content_hash
from coevolve.stage import run_iteration
from coevolve.tracking import file_hash, policy_hash, start


def main(params: Params, t: int) -> int:
    if launch.wanted(params.launch) and not launch.inside():
        return launch.spawn(params.launch, __file__, str(t))
    from coevolve.training.grpo import Job, train

    environment = make(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment)
    parent, policy, knobs = Paths.policy(t), params.policy, params.train
    inputs = [params.seed, t, knobs.model_dump(), policy.model_dump(), params.launch.model_dump()]
    hashes = [environment.fingerprint, file_hash(Paths.tasks(t)), policy_hash(parent)]
    fingerprint = content_hash([*inputs, *hashes])
    job = Job(
        iteration=t,
        seed=params.seed,
        parent=parent,
        tasks=tasks,
        policy=Paths.policy(t + 1),
        trajectories=Paths.trajectories(t),
        metrics=Paths.data(t) / "train_metrics.jsonl",
        scratch=scratch() / "train" / fingerprint,
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

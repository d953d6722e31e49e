"""Stage `train`: GRPO on the tasks of iteration t, from policies/t.

Writes policies/next, data/t/trajectories.parquet and data/t/train_metrics.jsonl. Checkpoints are in scratch/train:
run again after a kill, it goes on from the last one.
"""

from coevolve.environments import make
from coevolve.files import Paths, read_tasks, scratch
from coevolve.params import Params
from coevolve.records import content_hash
from coevolve.rollout import Limits
from coevolve.stage import run_iteration
from coevolve.tracking import file_hash, policy_hash, start


def main(params: Params, t: int) -> None:
    from coevolve.training.grpo import Job, train

    environment = make(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment)
    parent, policy, knobs = Paths.policy(t), params.policy, params.train
    inputs = [params.seed, t, knobs.model_dump(), policy.model_dump(), environment.fingerprint]
    fingerprint = content_hash([*inputs, file_hash(Paths.tasks(t)), policy_hash(parent)])
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
    limits = Limits.of(policy)
    with start(params.tracking, f"train/{t}", {"coevolve.fingerprint": fingerprint}) as run:
        run.params({"seed": params.seed, "iteration": t, "environment": params.environment, **knobs.model_dump()})
        run.dataset(Paths.tasks(t), "training")
        train(knobs, limits, environment, job, policy.threads, lambda step, figures: run.metrics(figures, step))


if __name__ == "__main__":
    run_iteration(main, __doc__)

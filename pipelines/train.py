"""Stage `train`: policies/t learns from the tasks of iteration t, by the learner that `train.learner` names.

Writes policies/next, data/t/trajectories.parquet and data/t/train_metrics.jsonl. Checkpoints are in scratch/train:
run again after a kill, it goes on from the last one. On several processes by the section `launch` of params.yaml.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from coevolve.core import launch
from coevolve.core.arithmetic import in_effect
from coevolve.core.attempts import read_attempts
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.imports import digest
from coevolve.core.io import read_jsonl, read_jsonl_objects, read_tasks
from coevolve.core.params import Params, Tracking
from coevolve.core.paths import Paths
from coevolve.core.records import Pair
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage import run_iteration
from coevolve.core.stage_summary import write_summary
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.train.figures import summary
from coevolve.stages.train.learner import Job, Settings, learner
from coevolve.tracking.journal import start


def main(params: Params, t: int) -> int:
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment, least=1)
    settings = Settings(params.train, params.policy, params.launch, params.grpo, params.dpo, params.sft)
    attempts = read_attempts(Paths.attempts(t))
    played = {name: Paths.pairs(t) / f"{name}.parquet" for name in ("rehearsals", "references", "hard")}
    pairs_file = Paths.pairs(t) / "pairs.jsonl"
    pairs, episodes = read_jsonl(pairs_file, Pair), {name: read_trajectories(file) for name, file in played.items()}
    inputs = [params.seed, t, *(section.model_dump() for section in vars(settings).values())]
    # what another code, arithmetic, environment, dataset or parent left half-done is not gone on with
    files = map(file_hash, (Paths.environment, Paths.tasks(t), Paths.attempts(t), pairs_file, *played.values()))
    policies = map(policy_hash, (Paths.policy(t), Paths.policy(0)))
    fingerprint = content_hash([*inputs, in_effect().name, digest(Path(__file__).resolve()), *files, *policies])
    place = scratch() / "train" / fingerprint
    job = Job(
        iteration=t,
        seed=params.seed,
        parent=Paths.policy(t),
        tasks=tasks,
        policy=Paths.policy(t + 1),
        trajectories=Paths.trajectories(t),
        metrics=Paths.data(t) / "train_metrics.jsonl",
        scratch=launch.folder(place),
        base=Paths.policy(0),
        attempts=attempts,
        pairs=pairs,
        **episodes,
    )
    if launch.inside():
        return _learn(settings, environment, job, params.tracking, fingerprint)
    if launch.machine() > 0:
        return launch.spawn(settings.launch, __file__, str(t))
    with claim(place) as folder:
        if launch.wanted(settings.launch):
            return launch.spawn(settings.launch, __file__, str(t), folder=folder)
        return _learn(settings, environment, replace(job, scratch=folder), params.tracking, fingerprint)


def _learn(settings: Settings, environment: Environment, job: Job, tracking: Tracking, fingerprint: str) -> int:
    learn = learner(settings.train.learner)
    tags = {"coevolve.fingerprint": fingerprint}
    run = start(tracking, f"train/{job.iteration}", tags) if launch.is_main() else None
    with run or nullcontext() as tracked:
        if tracked:
            own = getattr(settings, settings.train.learner, {})
            place = {"seed": job.seed, "iteration": job.iteration, "environment": environment.name}
            tracked.params({**place, **dict(settings.train), **dict(own), **dict(settings.launch)})
            tracked.dataset(Paths.tasks(job.iteration), "training")
        learn(settings, environment, job, lambda step, figures: tracked.metrics(figures, step) if tracked else None)
    if launch.is_main():
        steps = [row for _, row in read_jsonl_objects(job.metrics)]
        took = summary(job.iteration, steps, settings.train.group_size)
        write_summary(replace(took, arithmetic=in_effect().name))
    return 0


if __name__ == "__main__":
    run_iteration(main, __doc__)

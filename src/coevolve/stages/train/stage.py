"""Stage `train`: policies/t learns from the tasks of iteration t, by the learner that `train.learner` names.

Writes policies/next, data/t/trajectories.parquet and data/t/train_metrics.jsonl. Checkpoints are in scratch/train: after a
kill, a new run continues from the last checkpoint (``resumed`` in saving.py). The section `launch` of params.yaml sets the number
of processes.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coevolve.core import launch
from coevolve.core.arithmetic import in_effect
from coevolve.core.attempts import read_visits
from coevolve.core.interruptions import interrupted
from coevolve.core.io import read_jsonl, read_jsonl_objects, read_tasks
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.processes import available, prepare
from coevolve.core.records import Pair
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_seconds import tell_step
from coevolve.core.stage_summary import TOKENS, StageSummary, write_summary
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.schema import Params
from coevolve.stages.train.learner import Job, Learner, Settings, noted
from coevolve.stages.train.learners import LEARNERS

# metrics of DPO at the last step: beta times the log-ratios to the anchor, of both sides and their difference
PREFERENCE = {
    "margin": "margin of pairs",
    "accuracy": "pairs ranked right",
    "chosen": "log-ratio of chosen episodes",
    "rejected": "log-ratio of rejected episodes",
}


def main(params: Params, t: int) -> int:
    environment = open_environment(params.environment)
    if not params.trains:
        LEARNERS.find(params.train.learner, "imported")(params.train, params.learner, environment, t)
        return 0
    tasks = read_tasks(Paths.tasks(t), environment.name, least=1)
    settings = Settings(params.train, params.policy, params.launch, params.learner)
    attempts = read_visits(Paths.attempts(t))
    files = {name: Paths.pairs(t) / f"{name}.parquet" for name in ("rehearsals", "references", "hard")}
    episodes = {name: read_trajectories(file) for name, file in files.items()}
    checkpoints = scratch() / "train" / scratch_key("train", t, params)
    job = Job(
        iteration=t,
        seed=params.seed,
        parent=Paths.policy(t),
        tasks=tasks,
        policy=Paths.policy(t + 1),
        trajectories=Paths.trajectories(t),
        metrics=Paths.data(t) / "train_metrics.jsonl",
        scratch=launch.folder(checkpoints),
        base=Paths.policy(0),
        attempts=attempts,
        pairs=read_jsonl(Paths.pairs(t) / "pairs.jsonl", Pair),
        replay=read_trajectories(Paths.replay),
        **episodes,
    )
    if launch.inside():
        return _learn(settings, environment, job)
    if launch.machine() > 0:
        return launch.spawn(settings.launch, *sys.argv)
    with claim(checkpoints) as folder:
        if launch.wanted(settings.launch):
            return launch.spawn(settings.launch, *sys.argv, folder=folder)
        return _learn(settings, environment, replace(job, scratch=folder))


def _learn(settings: Settings, environment: Environment, job: Job) -> int:
    if available() > 1:
        prepare("coevolve.stages.train.parallel_grpo")  # worker processes import it while this process does
    learn: Learner = LEARNERS.find(settings.train.learner, "learn")
    learn(settings, environment, job, tell_step)
    if launch.is_main():
        steps = [row for _, row in read_jsonl_objects(job.metrics)]
        stage_summary = summary(job.iteration, steps, settings.train.group_size)
        notes = interrupted(trajectory.end for trajectory in read_trajectories(job.trajectories))
        notes += noted()
        write_summary(replace(stage_summary, arithmetic=in_effect().name, notes=notes))
        print("".join(f"{note}\n" for note in notes), end="")
    return 0


def summary(t: int, steps: Sequence[Mapping[str, float]], group_size: int) -> StageSummary:
    """The summary of the ``steps`` in train_metrics.jsonl."""
    groups = int(sum(step["groups"] for step in steps))
    costs = {
        "gradient steps": len(steps),
        "training episodes": groups * group_size,
        TOKENS: int(sum(step["tokens"] for step in steps)),
    }
    success = {
        "success at the first step": steps[0]["success"] if steps else None,
        "success at the last step": steps[-1]["success"] if steps else None,
    }
    last = steps[-1] if steps else {}
    preferred = {title: last[name] for name, title in PREFERENCE.items() if name in last}
    wasted = int(sum(step["groups_without_variance"] for step in steps))
    waste = {"share of groups that teach nothing": wasted / groups if groups else None}
    return StageSummary(
        "train",
        t,
        {**costs, **success, "groups": groups, "groups without variance": wasted, **waste, **preferred},
        costs=list(costs),
    )

"""Whether a failure agent fails closer than the agent in training: of a run with `train.learner: dpo`, iteration by iteration.

    python benchmarks/failures.py --run .

Means over the tasks that both fail, each task's mean counting once, as differences with their bootstrap interval over tasks: in
closeness, and in the share of failures that do nothing. `near` is the share of all failures of rank `pairs.failure_agent.closeness` or more.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from coevolve.core.io import read_tasks
from coevolve.core.outcomes import interval
from coevolve.core.paths import Paths
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.registry import make
from coevolve.stages.pairs.closeness import Failure, closeness, failures
from coevolve.stages.params import Params, load

PLAYED = {
    "the agent": "rehearsals.parquet",
    "failure agent before": "failure/before.parquet",
    "after": "failure/after.parquet",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path(), help="the folder of a finished run")
    args = parser.parse_args()
    params = load(args.run / "params.yaml")
    for one in params.iterations:
        if (args.run / Paths.pairs(one.t) / "failure").is_dir():
            compare(args.run, params, one.t)


def compare(run: Path, params: Params, t: int) -> None:
    environment, tasks, folder = make(params.environment), read_tasks(run / Paths.tasks(t)), run / Paths.pairs(t)
    references = {one.task_id: one for one in read_trajectories(folder / "references.parquet")}
    found: dict[str, dict[str, list[Failure]]] = {}
    for who, file in PLAYED.items():
        episodes = read_trajectories(folder / file)
        facts, found[who] = failures(environment, tasks, references, episodes), defaultdict(list)
        for one in episodes:
            if one.trajectory_id in facts:
                found[who][one.task_id].append(facts[one.trajectory_id])
    agent, near = found["the agent"], params.pairs.failure_agent.closeness
    print(f"iteration {t} | closeness, over the agent | do nothing, over the agent | near | failures")
    for who, failed in found.items():
        both = sorted(set(failed) & set(agent))
        every = [closeness(one) for some in failed.values() for one in some]
        share = fmean(one >= near for one in every) if every else 0.0
        close = [mean(failed[task]) - mean(agent[task]) for task in both]
        idle = [fmean(one.idle for one in failed[task]) - fmean(one.idle for one in agent[task]) for task in both]
        print(f"{who} | {said(close, params)} | {said(idle, params)} | {share:.3f} | {len(every)}")


def mean(some: Sequence[Failure]) -> float:
    return fmean(map(closeness, some))


def said(differences: Sequence[float], params: Params) -> str:
    if not any(differences):
        return "-"
    low, high = interval(differences, params.evaluate, params.seed)
    return f"{fmean(differences):+.3f} [{low:+.3f}, {high:+.3f}] of {len(differences)} tasks"


if __name__ == "__main__":
    main()

"""Which failures teach an agent by preference? One iteration of a finished run with `train.learner: dpo`, learned again and again from
the same rehearsal, by pairs that differ in their rejected side alone.

    python benchmarks/negatives.py --run . --iteration 0 --seeds 0 1 2

    own      the agent's own failures, any of a task's (ETO)
    near     the same, those first that come closest
    hard     half of a task's pairs by hard negatives of the failure agent, as far as there are any (Co-Evolving Agents)
    theirs   the failure agent's failures, near or not, and the agent's own where these are too few

Success is greedy, on the panel that champions are chosen by. Seeds choose pairs, their order and the training's own draws.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from coevolve.core.io import read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Pair
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.environments.registry import make
from coevolve.policies.loading import playing
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import evaluate
from coevolve.stages.pairs.choose import by_task, choose, distinct
from coevolve.stages.pairs.closeness import failures, ranked
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.params import Params, load
from coevolve.stages.train import dpo
from coevolve.stages.train.learner import Job, Settings

WAYS = ("own", "near", "hard", "theirs")


class Rehearsed:
    """What was played in iteration ``t`` of the run in ``folder``."""

    def __init__(self, folder: Path, t: int) -> None:
        self.folder, self.t = folder, t
        self.params = load(folder / "params.yaml")
        self.world = make(self.params.environment)
        self.tasks = read_tasks(folder / Paths.tasks(t), self.params.environment)
        pairs = folder / Paths.pairs(t)
        self.rehearsals = read_trajectories(pairs / "rehearsals.parquet")
        self.references = {one.task_id: one for one in read_trajectories(pairs / "references.parquet")}
        self.theirs = read_trajectories(pairs / "failure/after.parquet")
        judged = failures(self.world, self.tasks, self.references, [*self.rehearsals, *self.theirs])
        self.ranks = ranked(judged, self.params.pairs.rank)

    def pairs(self, way: str, seed: int) -> list[Pair]:
        own, plan = self.params.pairs, Rehearsal(seed, self.t, self.tasks, [], Path())
        played, hard = self.rehearsals, list[Trajectory]()
        if way == "near":
            played = closest(played, self.ranks, own)
        elif way == "hard":
            hard = [one for one in self.theirs if self.ranks.get(one.trajectory_id, 0.0) >= own.failure_agent.closeness]
        elif way == "theirs":
            hard = self.theirs
        share = {"own": 0.0, "near": 0.0, "theirs": 1.0}.get(way, own.hard)
        chosen = own.model_copy(update={"hard": share})
        return choose(played, self.references, self.ranks, chosen, plan, hard)

    def success(self, pairs: Sequence[Pair], seed: int) -> float:
        """Of the policy that learns from ``pairs``."""
        params = self.params
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            (place / "scratch").mkdir()
            job = Job(
                self.t, seed, self.folder / Paths.policy(self.t), self.tasks, place / "policy", place / "trajectories",
                place / "metrics", place / "scratch", self.folder / Paths.policy(0), pairs=pairs,
                rehearsals=self.rehearsals, references=list(self.references.values()), hard=self.theirs,
            )  # fmt: skip
            settings = Settings.of(params)
            dpo.learn(settings, self.world, job)
            return solved(job.policy, params, self.world.tasks(params.report.panel))


def closest(played: Sequence[Trajectory], ranks: dict[str, float], own: Pairs) -> list[Trajectory]:
    """Without those failures that a task has no pair for, if its closest come first."""
    left: list[Trajectory] = []
    for some in by_task(played).values():
        failed = [one for one in some if ranks.get(one.trajectory_id, 1.0) <= 1.0 - own.margin]
        failed.sort(key=lambda one: -ranks[one.trajectory_id])
        kept = {one.trajectory_id for one in list(distinct(failed).values())[: own.per_task]}
        left += [one for one in some if one.trajectory_id in kept or one not in failed]
    return left


def solved(policy: Path, params: Params, tasks: Sequence[Task]) -> float:
    once = params.evaluate.model_copy(update={"panels": None, "samples": 1, "temperature": 0.0})
    with playing(policy, params.policy, 0.0) as player:
        panel = {params.report.panel: tasks}
        outcomes = evaluate(player, make(params.environment), panel, Limits.of(params.policy), once, params.seed)
    return fmean(one.success for one in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path(), help="the folder of a finished run")
    parser.add_argument("--iteration", type=int, default=0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    args = parser.parse_args()
    run = Rehearsed(args.run, args.iteration)
    start = solved(args.run / Paths.policy(args.iteration), run.params, run.world.tasks(run.params.report.panel))
    print(f"policies/{args.iteration}: {start:.3f} of {run.params.report.panel}")
    for way in args.ways:
        found, close = [], []
        for seed in args.seeds:
            pairs = run.pairs(way, seed)
            close.append(fmean(one.closeness for one in pairs))
            found.append(run.success(pairs, seed))
        share = fmean(one.kind.endswith("hard") for one in pairs)
        told = ", ".join(f"{one:.3f}" for one in found)
        print(
            f"{way}: {fmean(found):.3f} ({told}); {len(pairs)} pairs, {share:.0%} by the failure agent, closeness "
            f"{fmean(close):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

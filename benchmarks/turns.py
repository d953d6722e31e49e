"""What pairs of single turns teach, beside pairs of whole episodes: the first iteration of a run with `train.learner: dpo`, trained anew
by each.

    python benchmarks/turns.py --run . --rates 2e-5 1.5e-4

Ways: whole episodes; turns; and turns without those pairs whose preferred reply ends an episode. With and without the supervised term.
Greedy success on the panel `validation`, and of the last step the margin and beta times the log-ratio of what is preferred.
"""

import argparse
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from coevolve.core.io import read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Pair, Trajectory
from coevolve.core.success import is_success
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.policies.loading import playing
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.pairs.choose import FINISHED, choose
from coevolve.stages.pairs.closeness import failures, ranked
from coevolve.stages.pairs.evolve import Ground
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.pairs.turns import ByTurn, by_turn
from coevolve.stages.params import Params, load
from coevolve.stages.train.dpo import learn
from coevolve.stages.train.learner import Job, Settings

Played = tuple[list[Trajectory], list[Trajectory]]  # rehearsals and references


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path(), help="the folder of a finished run")
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-5], help="learning rates")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.5, 0.0], help="of the supervised term")
    args = parser.parse_args()
    os.chdir(args.run)
    params = load()
    environment, folder = make(params.environment), Paths.pairs(0)
    played = read_trajectories(folder / "rehearsals.parquet"), read_trajectories(folder / "references.parquet")
    pairs, turns = made(params, environment, played)
    ways = {
        "episodes": (pairs, False),
        "turns": (turns.pairs, True),
        "turns, none that ends": ([one for one in turns.pairs if one.kind != FINISHED], True),
    }
    print("pairs of | rate | supervised | pairs | validation | margin | chosen", flush=True)
    for rate in args.rates:
        for weight in args.weights:
            for name, (some, single) in ways.items():
                own = params.dpo.model_copy(update={"learning_rate": rate, "sft_weight": weight})
                tuned = params.model_copy(update={"dpo": own})
                said = trained(tuned, environment, list(some), played, turns.continued if single else ())
                print(f"{name} | {rate:g} | {weight:g} | {len(some)} | {said}", flush=True)


def made(params: Params, environment: Environment, played: Played) -> tuple[list[Pair], ByTurn]:
    """Pairs of whole episodes, without a failure agent's, and those of turns that come of them."""
    rehearsals, references = played
    tasks, own = read_tasks(Paths.tasks(0)), params.pairs.model_copy(update={"hard": 0.0})
    by_task = {one.task_id: one for one in references}
    plan = Rehearsal(params.seed, 0, tasks, [], Path())
    judge = partial(failures, environment, tasks, by_task)
    pairs = choose(rehearsals, by_task, ranked(judge(rehearsals), own.rank), own, plan)
    known = {one.trajectory_id: one for one in (*rehearsals, *references)}
    play = partial(playing, config=params.policy, temperature=params.train.temperature)
    ground = Ground(environment, plan, Limits.of(params.policy), play)
    return pairs, by_turn(pairs, known, ground, lambda some: ranked(judge(some), own.rank), own.margin)


def trained(
    params: Params, environment: Environment, pairs: list[Pair], played: Played, continued: Sequence[Trajectory]
) -> str:
    """What comes of one iteration."""
    settings = Settings.of(params)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        job = Job(
            0, params.seed, Paths.policy(0), read_tasks(Paths.tasks(0)), place / "policy", place / "played.parquet",
            place / "metrics.jsonl", place / "scratch", Paths.policy(0), (), pairs, *played, continued=continued,
        )  # fmt: skip
        last: dict[str, float] = {}
        learn(settings, environment, job, lambda step, figures: last.update(figures))
        panel = read_tasks(Paths.panel("validation"))
        wanted = [RolloutRequest(task, number) for number, task in enumerate(panel)]
        with playing(job.policy, params.policy, 0.0) as policy:
            episodes = rollout(policy, environment, wanted, Limits.of(params.policy))
    success = fmean(is_success(one.trajectory.score) for one in episodes)
    return f"{success:.3f} | {last['margin']:.2f} | {last['chosen']:.2f}"


if __name__ == "__main__":
    main()

"""Stage `explore`: what the real environment does around the weaknesses of iteration t.

Reads data/t/signals.jsonl, the trajectories that show them and the tasks, or what a generator wrote, data/t/specs.jsonl; writes
data/t/explorations.jsonl, and data/t/requests/explore with every request to an endpoint, its reply and what was spent; its summary. Run again after a kill, it pays
for nothing twice: scratch/requests has what was answered.
"""

from functools import partial

from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.records import Generation, Signal
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.core.workers import engine
from coevolve.endpoint.spending import metered
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment, standing
from coevolve.environments.mixture import split
from coevolve.policies.loading import open_policy
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.explorers import make_explorer
from coevolve.stages.explore.requests import Request, requests, written
from coevolve.stages.params import Params

Heard = tuple[Environment, list[Task], list[Trajectory]]  # an environment, its tasks and the episodes at them


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment, least=1)
    signals = read_jsonl(Paths.signals(t), Signal)
    trajectories = read_trajectories(Paths.trajectories(t))
    work: list[tuple[Heard, list[Request]]] = []
    for part, count in split(environment, params.explore.explorations):
        ours = part.own(tasks)
        played = part.played(trajectories, ours)
        if params.explore.guidance == "generator":
            made = written(part.environment, ours, read_jsonl(Paths.specs(t), Generation), t, params.seed)
        else:
            config, about = params.explore.model_copy(update={"explorations": count}), part.about(signals, ours, played)
            made = requests(part.environment, ours, played, about, config, t, part.seed(params.seed))
        work.append(((part.environment, ours, played), made))
    total = sum(len(made) for _, made in work)
    acting = (Paths.policy(t + 1), params.policy, params.train.temperature)
    asked, folder = params.explore.explorer == "endpoint", Paths.requests(t, "explore")
    explorations = []
    with (
        engine(params.compute, partial(standing, params.environment)) as workers,
        bar(total, f"explore {t}", "explorations") as progress,
        metered(params.endpoint, asked, folder, progress) as meter,
    ):
        policy = partial(open_policy, *acting, workers)
        for heard, made in work:
            explorer = make_explorer(params.explore, params.policy, *heard, policy, meter)
            explorations += explore(explorer, made, progress.update)
    write_jsonl(Paths.explorations(t), explorations)
    figures = {"explorations": len(explorations), **meter.costs()}
    write_summary(StageSummary("explore", t, figures, costs=list(figures), notes=meter.lost()))
    print(f"{Paths.explorations(t)}: {len(explorations)} of {total} explorations found something{meter}")

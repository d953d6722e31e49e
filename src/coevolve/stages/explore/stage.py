"""Stage `explore`: explore the real environment around the weaknesses of iteration t.

Reads data/t/signals.jsonl with the trajectories and the tasks, or the task generator's data/t/specs.jsonl. Writes
data/t/explorations.jsonl, its summary, and data/t/requests/explore with every request to an endpoint, its reply and the
cost. After a kill it pays for nothing twice: scratch/requests holds the answers.
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
from coevolve.environments.fingerprint import fingerprint_of, open_environment
from coevolve.environments.mixture import split
from coevolve.policies.loading import open_policy
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.explorers import make_explorer
from coevolve.stages.explore.requests import Request, requests, written
from coevolve.stages.schema import Params

Inputs = tuple[Environment, list[Task], list[Trajectory]]  # an environment with its tasks and trajectories


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment, least=1)
    signals = read_jsonl(Paths.signals(t), Signal)
    trajectories = read_trajectories(Paths.trajectories(t))
    work: list[tuple[Inputs, list[Request]]] = []
    for part, count in split(environment, params.explore.explorations):
        part_tasks = part.own(tasks)
        played = part.played(trajectories, part_tasks)
        if params.explore.guidance == "generator":
            specs = read_jsonl(Paths.specs(t), Generation)
            batch = written(part.environment, part_tasks, specs, t, params.seed)
        else:
            config = params.explore.model_copy(update={"explorations": count})
            part_signals = part.about(signals, part_tasks, played)
            batch = requests(part.environment, part_tasks, played, part_signals, config, t, part.seed(params.seed))
        work.append(((part.environment, part_tasks, played), batch))
    total = sum(len(batch) for _, batch in work)
    uses_endpoint, folder = params.explore.explorer == "endpoint", Paths.requests(t, "explore")
    explorations = []
    with (
        engine(params.compute, partial(fingerprint_of, params.environment)) as workers,
        bar(total, f"explore {t}", "explorations") as progress,
        metered(params.endpoint, uses_endpoint, folder, progress) as meter,
    ):
        policy = partial(open_policy, Paths.policy(t + 1), params.policy, params.train.temperature, workers)
        for inputs, batch in work:
            explorer = make_explorer(params.explore, params.policy, *inputs, policy, meter)
            explorations += explore(explorer, batch, progress.update)
    write_jsonl(Paths.explorations(t), explorations)
    figures = {"explorations": len(explorations), **meter.costs()}
    write_summary(StageSummary("explore", t, figures, costs=list(figures), notes=meter.lost()))
    print(f"{Paths.explorations(t)}: {len(explorations)} of {total} explorations found something{meter}")

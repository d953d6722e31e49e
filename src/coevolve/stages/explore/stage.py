"""Stage `explore`: explore the real environment around the weaknesses of iteration t.

Reads data/t/signals.jsonl with the trajectories and the tasks, or the task generator's data/t/specs.jsonl. Writes
data/t/explorations.jsonl, its summary, and data/t/requests/explore with every request to an endpoint, its reply and the
cost. After a kill it pays for nothing twice: scratch/requests holds the answers.
"""

from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.records import Generation, Signal
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.trajectories import read_trajectories
from coevolve.endpoint.spending import metered
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.explore.explorer import carry_out, plan
from coevolve.stages.schema import Params


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), environment.name, least=1)
    signals = read_jsonl(Paths.signals(t), Signal)
    trajectories = read_trajectories(Paths.trajectories(t))
    specs = read_jsonl(Paths.specs(t), Generation) if params.explore.guidance == "generator" else []
    planned = plan(environment, tasks, trajectories, signals, specs, params.explore, t, params.seed)
    total = len(planned.requests)
    uses_endpoint, folder = params.explore.explorer == "endpoint", Paths.requests(t, "explore")
    with (
        bar(total, f"explore {t}", "explorations") as progress,
        metered(params.endpoint, uses_endpoint, folder, progress) as meter,
    ):
        explorations, interrupted, notes = carry_out(planned, params.explore, params.policy, meter, progress.update)
    write_jsonl(Paths.explorations(t), explorations)
    figures = {"explorations": len(explorations), **meter.costs()}
    write_summary(StageSummary("explore", t, figures, costs=list(figures), notes=meter.lost() + interrupted))
    print(f"{Paths.explorations(t)}: {len(explorations)} of {total} explorations found something{meter}")
    for note in (*interrupted, *notes):
        print(note)

"""Stage `explore`: what the real environment does around the weaknesses of iteration t.

Reads data/t/signals.jsonl, the trajectories that show them and the tasks; writes data/t/explorations.jsonl, and
data/t/requests/explore with every request to an endpoint, its reply and what was spent. Run again after a kill, it pays
for nothing twice: scratch/requests has what was answered.
"""

from coevolve.environments import make
from coevolve.explore import explore, make_explorer, requests
from coevolve.files import Paths, read_jsonl, read_tasks, read_trajectories, write_jsonl
from coevolve.params import Params
from coevolve.progress import bar
from coevolve.records import Signal
from coevolve.spending import metered
from coevolve.stage import run_iteration


def main(params: Params, t: int) -> None:
    knobs = params.explore
    environment = make(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment)
    signals = read_jsonl(Paths.signals(t), Signal) if knobs.guidance == "signals" else []
    trajectories = read_trajectories(Paths.trajectories(t))
    count = 0 if knobs.schedule == "upfront" and t > 0 else knobs.explorations
    wanted = requests(environment, tasks, trajectories, signals, count, t, params.seed)
    asked, folder = knobs.explorer == "endpoint", Paths.requests(t, "explore")
    with (
        bar(len(wanted), f"explore {t}", "explorations") as progress,
        metered(params.endpoint, asked, folder, progress) as meter,
    ):
        explorer = make_explorer(params, environment, tasks, trajectories, Paths.policy(t + 1), meter)
        found = explore(explorer, wanted, progress.update)
    write_jsonl(Paths.explorations(t), found)
    print(f"{Paths.explorations(t)}: {len(found)} of {len(wanted)} explorations found something{meter}")


if __name__ == "__main__":
    run_iteration(main, __doc__)

"""What each guidance finds, from the same state of a finished run: how much there is to learn from it.

    python benchmarks/guidance.py --run . --iteration 0 --seeds 3

Every guidance explores from iteration T's tasks, trajectories and signals, with as many explorations; what is accepted is played
by policy T + 1, which shall learn from it, `--samples` times. A run over all of these would tell the guidances apart by what its
last policy solves, with an error of several points a run; this looks at the cause alone, in minutes.

`learnability` is the mean of 4p(1 - p) over the accepted tasks, without the bias of few samples; `mixed` the share that was neither
always nor never solved, as a group must be to teach; `always` and `never` the others; `tools` how many tools the references use
three times or more. Means over seeds ± half their 95 % interval.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from coevolve.core.io import read_tasks
from coevolve.core.learnability import variance
from coevolve.core.paths import Paths
from coevolve.core.records import Signal
from coevolve.core.statistics import estimate
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.knowledge import learn
from coevolve.policies.loading import open_policy
from coevolve.rollout import Limits
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.params import Params, load
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.table import open_table
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.config import Select
from coevolve.stages.verify.judge import accepted, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import pass_rates, with_pass_rate
from coevolve.stages.verify.select import select

USES = 3  # of a tool, from which it counts as reached
SELECTED = {  # of three times as many
    "synthesize": {"count": 384},
    "verify": {"pass_rate_samples": 4, "select": Select(shape="variance", keep=128, variety=0.25)},
}
ARMS: dict[str, dict[str, dict[str, Any]]] = {
    "random": {"explore": {"guidance": "random"}},
    "coverage": {"explore": {"guidance": "coverage"}},
    "signals": {"explore": {"guidance": "signals"}},
    "random, selected": {"explore": {"guidance": "random", "explorations": 768}, **SELECTED},
    "signals, selected": {"explore": {"guidance": "signals", "explorations": 768}, **SELECTED},
}


def found(
    params: Params,
    environment: Environment,
    tasks: Sequence[Task],
    panels: Mapping[str, Sequence[Task]],
    trajectories: Sequence[Trajectory],
    signals: Sequence[Signal],
    t: int,
    seed: int,
    rated: Callable[[Sequence[Task], int, int], dict[str, float]],
) -> list[Task]:
    """What one guidance gets accepted: at most ``synthesize.count`` candidates, in the pipeline's order."""
    wanted = requests(environment, tasks, trajectories, signals, params.explore, t, seed)
    explorer = ScriptedExplorer(environment, learn(environment, tasks), params.explore)
    explorations = explore(explorer, wanted, lambda count: None)
    writer = ScriptedSynthesizer(environment, tasks, seed)
    candidates = synthesize(writer, explorations, params.synthesize.count, lambda count: None)
    library = Library(tasks, panels, params.verify.near_duplicate)
    judged = verify(params.environment, [json.dumps(asdict(one)) for one in candidates], library)
    if config := params.verify.select:
        samples = params.verify.pass_rate_samples
        rates = rated(accepted(judged), samples, -1 - seed)  # by other episodes than it is measured by
        judged = select([with_pass_rate(verdict, task, rates) for verdict, task in judged], config, samples)
    return accepted(judged)


def measured(tasks: Sequence[Task], rates: Mapping[str, float], samples: int) -> dict[str, float]:
    """The figures of the accepted tasks."""
    known = [rates[task.task_id] for task in tasks if task.task_id in rates]
    used = Counter(name for task in tasks for name in task.tools)
    return {
        "accepted": len(tasks),
        "learnability": fmean(variance(p) for p in known) * samples / (samples - 1),
        "mixed": fmean(0.0 < p < 1.0 for p in known),
        "always": fmean(p == 1.0 for p in known),
        "never": fmean(p == 0.0 for p in known),
        "tools": sum(count >= USES for count in used.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path(), help="folder of a finished run (.)")
    parser.add_argument("--iteration", type=int, default=0, metavar="T")
    parser.add_argument("--seeds", type=int, default=3, help="explorations from so many seeds (3)")
    parser.add_argument("--samples", type=int, default=8, help="episodes a task (8)")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    args = parser.parse_args()
    code = Path(__file__).resolve().parents[1]
    base = load(code / "params.yaml")
    os.chdir(args.run)
    environment, t = make(base.environment), args.iteration
    tasks, trajectories = read_tasks(Paths.tasks(t), base.environment), read_trajectories(Paths.trajectories(t))
    panels = {name: read_tasks(Paths.panel(name), base.environment) for name in environment.panels}
    history = Paths.attempts(t) if Paths.attempts(t).exists() else None
    policy = open_policy(Paths.policy(t + 1), base.policy, base.train.temperature)
    print(
        f"{len(tasks)} tasks, {len(trajectories)} episodes of iteration {t}; {args.samples} episodes a task by policy {t + 1}"
    )

    def rated(tasks: Sequence[Task], samples: int, seed: int) -> dict[str, float]:
        return pass_rates(policy, environment, tasks, Limits.of(base.policy), samples, seed, lambda count: None)

    for arm in args.arms:
        changes = {name: getattr(base, name).model_copy(update=update) for name, update in ARMS[arm].items()}
        params = base.model_copy(update=changes)
        with open_table(Paths.trajectories(t), history) as table:
            signals = list(extract(table, t, params.signals))
        rows = []
        for seed in range(args.seeds):
            made = found(params, environment, tasks, panels, trajectories, signals, t, seed, rated)
            rows.append(measured(made, rated(made, args.samples, seed), args.samples))
        figures = "  ".join(f"{name} {estimate([row[name] for row in rows])}" for name in rows[0])
        print(f"{arm:20}  {figures}", flush=True)


if __name__ == "__main__":
    main()

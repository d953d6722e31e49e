"""What became of tasks that policies/0 never solved, and how much of training taught nothing, in finished runs of a study.

    python benchmarks/unsolved.py claims-even-random-9 claims-even-all-9           # names of experiments (`dvc exp list`)
    python benchmarks/unsolved.py --repository ../elsewhere claims-even-all-5

policies/0 of the first run plays the panel --attempts times at temperature 1; the runs must share it. A row for each run: of the
tasks that it never solved, and of those that it did, the share that the last policy solves (greedy, from the run's own
evaluation); and by iteration, the share of groups whose attempts all had one reward, from which GRPO learns nothing.
"""

import argparse
import json
import tempfile
from pathlib import Path

from dvc.api import DVCFileSystem

from coevolve.core.io import parse_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, solved
from coevolve.core.paths import Paths
from coevolve.core.task import Task
from coevolve.core.yaml_files import read_yaml
from coevolve.environments.registry import make
from coevolve.policies.loading import open_policy
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import evaluate
from coevolve.stages.params import Params, parse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME")
    parser.add_argument("--repository", type=Path, default=Path(), help="where the experiments are")
    parser.add_argument("--panel", default="validation")
    parser.add_argument("--attempts", type=int, default=8)
    args = parser.parse_args()
    stores = {name: DVCFileSystem(str(args.repository.resolve()), rev=name) for name in args.runs}
    first = next(iter(stores.values()))
    params = parse(read_yaml(first.read_text("params.yaml")), f"{args.runs[0]}: params.yaml")
    tasks = parse_jsonl(first.read_text(str(Paths.panel(args.panel))), Task, args.panel)[: params.evaluate.tasks]
    rates = attempted(first, params, tasks, args.panel, args.attempts)
    never = {task for task, rate in rates.items() if rate == 0}
    print(f"policies/0: {len(never)} of {len(tasks)} tasks of {args.panel} never solved in {args.attempts} attempts")
    print("run | of these solved in the end | of the others | groups that teach nothing, by iteration")
    for name, store in stores.items():
        last = parse(read_yaml(store.read_text("params.yaml")), name).iterations[-1].next
        rows = parse_jsonl(store.read_text(str(Paths.evaluation(last) / OUTCOMES)), Outcome, name)
        done = solved(rows, args.panel)
        shares = [sum(done[task] for task in part) / max(len(part), 1) for part in (never, rates.keys() - never)]
        idle = [json.loads(store.read_text(f"data/{t}/watch.json"))["zero_variance"]["value"] for t in range(last)]
        print(f"{name} | {shares[0]:.3f} | {shares[1]:.3f} | {', '.join(f'{one:.2f}' for one in idle)}", flush=True)


def attempted(store: DVCFileSystem, params: Params, tasks: list[Task], panel: str, attempts: int) -> dict[str, float]:
    """The share of ``attempts`` at each task that policies/0 solves."""
    config = params.evaluate.model_copy(update={"samples": attempts, "temperature": 1.0})
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "policy"
        store.get(str(Paths.policy(0)), str(place), recursive=True)
        policy = open_policy(place, params.policy, config.temperature)
        environment, limits = make(params.environment), Limits.of(params.policy)
        played = evaluate(policy, environment, {panel: tasks}, limits, config, params.seed)
    return {
        task.task_id: sum(one.success for one in played if one.task_id == task.task_id) / attempts for task in tasks
    }


if __name__ == "__main__":
    main()

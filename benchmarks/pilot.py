"""Choose settings of GRPO for a model by short trainings, and say where the time of an episode goes.

Run it in a project whose `policies/0` exists (`dvc repro warm`):

    python benchmarks/pilot.py rates --tasks 96                      # plays 8 attempts at each task; writes pilot/rates.json
    python benchmarks/pilot.py train slow grpo.learning_rate=0.00005  # ten steps on the tasks solved now and then
    python benchmarks/pilot.py show

Each training of the pilot takes the same tasks in the same steps, so that their curves differ by the settings alone. The rest of
its parameters come from params.yaml. A killed training goes on from its last step. Seconds are those of one process.
"""

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import pin
from coevolve.core.io import read_json, read_jsonl_objects, write_json
from coevolve.core.progress import bar
from coevolve.core.section import load_yaml, read_yaml
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.registry import make
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.schema import PARAMS, parse
from studies.run_queue import parameters

FOLDER = Path("pilot")
RATES = FOLDER / "rates.json"
LOW, HIGH = 0.1, 0.9  # pass rates of the tasks to train on
ATTEMPTS = 8


def rates(params: Any, split: str, count: int) -> None:
    """Play ``ATTEMPTS`` episodes of policies/0 at the first ``count`` tasks of ``split``."""
    from coevolve.policies.transformers_policy import TransformersPolicy
    from coevolve.policies.transformers_policy import load as load_policy

    environment = make(params.environment)
    model, tokenizer = load_policy("policies/0", params.policy.threads, params.policy.dtype)
    policy = TransformersPolicy(model, tokenizer, params.train.temperature, params.policy.template)
    tasks = environment.tasks(split)[:count]
    wanted = [
        RolloutRequest(task, derive_seed(params.seed, "pilot", task.task_id, sample), sample=sample)
        for task in tasks
        for sample in range(ATTEMPTS)
    ]
    began, solved = time.perf_counter(), Counter[str]()
    with bar(len(wanted), "rates", "episodes") as progress:
        episodes = rollout(policy, environment, wanted, Limits.of(params.policy), progress=progress.update)
    for episode in episodes:
        solved[episode.trajectory.task_id] += is_success(episode.trajectory.score)
    write_json(RATES, {"split": split, "rates": {name: count / ATTEMPTS for name, count in solved.items()}})
    print(f"{len(tasks)} tasks, {(time.perf_counter() - began) / len(wanted):.2f} s per episode")
    print("tasks by successes of eight:", dict(sorted(Counter(solved.values()).items())))


def between(tasks: Sequence[Task]) -> list[Task]:
    rate = read_json(RATES)["rates"]
    return [task for task in tasks if LOW <= rate.get(task.task_id, -1.0) <= HIGH]


def timed(call: Callable[..., Any], name: Callable[..., str], seconds: Counter[str]) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*args, **more)
        finally:
            seconds[name(*args)] += time.perf_counter() - began

    return run


def train(params: Any, name: str, steps: int, scale: str) -> None:
    """Train policies/0 for ``steps`` steps; pilot/NAME/steps.jsonl gets the figures of each."""
    import torch

    from coevolve.stages.train import grpo
    from coevolve.stages.train.learner import Job, Settings

    environment, folder = make(params.environment), FOLDER / name
    tasks = between(environment.tasks(read_json(RATES)["split"]))
    settings = Settings(
        params.train.model_copy(update={"steps": steps, "save_steps": 1, "curriculum": "even"}),
        params.policy, params.launch, params.learner,
    )  # fmt: skip
    seconds: Counter[str] = Counter()
    trainer = grpo._LoopTrainer
    grpo.rollout = timed(grpo.rollout, lambda *_: "rollout", seconds)
    trainer._scored = timed(
        trainer._scored, lambda *_: "policy pass" if torch.is_grad_enabled() else "KL pass", seconds
    )
    trainer._generate_and_score_completions = timed(
        trainer._generate_and_score_completions, lambda *_: "before", seconds
    )
    trainer.training_step = timed(trainer.training_step, lambda *_: "training step", seconds)
    grpo.GRPOConfig = partial(grpo.GRPOConfig, scale_rewards=scale)

    def log(step: int, figures: dict[str, float]) -> None:
        spent = {"backward": seconds["training step"] - seconds["before"] - seconds["policy pass"], **seconds}
        line = {"step": step, **figures, "seconds": {key: round(value, 2) for key, value in spent.items()}}
        seconds.clear()
        with (folder / "steps.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    folder.mkdir(parents=True, exist_ok=True)
    start = Path("policies/0")
    files = (folder / "policy", folder / "trajectories.parquet", folder / "metrics.jsonl", folder / "scratch")
    grpo.learn(settings, environment, Job(0, params.seed, start, tasks, *files, start), log)


def show() -> None:
    """A table of all trainings: reward by step, its slope, and seconds per episode."""
    import numpy as np

    for file in sorted(FOLDER.glob("*/steps.jsonl")):
        steps = {row["step"]: row for _, row in read_jsonl_objects(file)}
        values = [steps[step] for step in sorted(steps)]
        success = [row["success"] for row in values]
        slope = np.polyfit(range(len(success)), success, 1)[0] if len(success) > 1 else float("nan")
        spent: Counter[str] = Counter()
        for row in values:
            spent.update(row["seconds"])
        episodes = sum(row["groups"] for row in values) * ATTEMPTS
        parts = ", ".join(
            f"{key} {value / episodes:.2f}" for key, value in spent.items() if key not in ("before", "training step")
        )
        print(
            f"{file.parent.name}: slope {slope:+.4f} a step; {' '.join(f'{one:.2f}' for one in success)}; s per episode: {parts}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["rates", "train", "show"])
    parser.add_argument("name", nargs="?", help="of the training")
    parser.add_argument("changes", nargs="*", help="key=value of params.yaml")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--split", default="seed")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument(
        "--scale", default="group", help="TRL's scale_rewards: group divides advantages by the deviation; none"
    )
    parser.add_argument("--fresh", action="store_true", help="start again")
    args = parser.parse_intermixed_args()
    if args.action == "show":
        return show()
    pin()
    changes = {key: read_yaml(value) for key, _, value in (one.partition("=") for one in args.changes)}
    params = parse(parameters(load_yaml(PARAMS, "run in a project"), changes), str(PARAMS))
    if args.action == "rates":
        return rates(params, args.split, args.tasks)
    if args.fresh:
        shutil.rmtree(FOLDER / args.name, ignore_errors=True)
    train(params, args.name, args.steps, args.scale)


if __name__ == "__main__":
    main()

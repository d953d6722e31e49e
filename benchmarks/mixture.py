"""What it costs to train on two environments in one run: GRPO on miniworld, on SQL and on half of each, in turn, at equal episodes.

`python benchmarks/mixture.py [--rounds 3] [--steps 4]` prints seconds, tokens, and how many times as long the mixture takes as the mean of
the two alone. Groups that teach nothing are not played anew, so that all three play as many episodes.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from coevolve.core.trajectories import read_trajectories
from coevolve.core.yaml_files import load
from coevolve.environments.registry import make
from coevolve.stages.train import grpo
from coevolve.stages.train.learner import Job, Settings

POLICY = Path(__file__).parent.parent / "policies/base"
ALONE = ("miniworld", "sql")
BOTH = "0.5*miniworld+0.5*sql"
TASKS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    took: dict[str, list[float]] = {name: [] for name in (*ALONE, BOTH)}
    said: dict[str, tuple[int, int]] = {}
    for number in range(args.rounds):
        for name in took:
            seconds, said[name] = train(name, args.steps, number)
            took[name].append(seconds)
    for name, seconds in took.items():
        episodes, tokens = said[name]
        print(f"{name}: {median(seconds):.1f} s for {episodes} episodes with {tokens} tokens of the agent")
    ratios = [2 * both / (one + other) for one, other, both in zip(*took.values(), strict=True)]
    print(f"{BOTH}: {median(ratios):.2f} times the mean of the two alone ({min(ratios):.2f} to {max(ratios):.2f})")


def train(name: str, steps: int, seed: int) -> tuple[float, tuple[int, int]]:
    """Seconds, and how many episodes with how many tokens, that the steps take on tasks of the environment."""
    params = load(POLICY.parent.parent / "params.yaml")
    world = make(name)
    try:
        update = {"steps": steps, "save_steps": steps}
        settings = replace(
            Settings.of(params),
            train=params.train.model_copy(update=update),
            grpo=params.grpo.model_copy(update={"refill_rounds": 0}),
        )
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "scratch").mkdir()
            job = Job(
                0, seed, POLICY, list(world.tasks("seed"))[:TASKS], place / "policy", place / "trajectories.parquet",
                place / "metrics.jsonl", place / "scratch", POLICY,
            )  # fmt: skip
            began = time.perf_counter()
            grpo.learn(settings, world, job)
            seconds = time.perf_counter() - began
            played = read_trajectories(job.trajectories)
        return seconds, (len(played), sum(sum(one.tokens) for one in played))
    finally:
        close = getattr(world, "close", None)
        if close:
            close()


if __name__ == "__main__":
    main()

"""Measure the time of a step on references, and the overhead of a worker. `python benchmarks/environments.py [NAME ...]`"""

import sys
import time

from coevolve.core.errors import CoevolveError
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make, names
from coevolve.environments.worker import WorkerEnvironment

STEPS, SECONDS = 20_000, 10.0  # limits for each environment


def step_seconds(world: Environment) -> tuple[float, int]:
    """The mean seconds of a step, and the number of steps."""
    session = world.open()
    steps, spent, began = 0, 0.0, time.perf_counter()
    tasks = [task for task in world.tasks("seed")[:64] if any(task.reference)]
    while tasks and steps < STEPS and time.perf_counter() - began < SECONDS:
        for task in tasks:
            session.reset(task)
            for turn in task.reference:
                started = time.perf_counter()
                for call in turn:
                    session.step(call)
                spent += time.perf_counter() - started
                steps += len(turn)
                session.say("")
            if time.perf_counter() - began > SECONDS:
                break
    session.close()
    return spent / max(steps, 1), steps


def main() -> None:
    for name in sys.argv[1:] or names():
        try:
            mean, steps = step_seconds(make(name))
        except CoevolveError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: {1e6 * mean:.1f} us per step over {steps} steps", flush=True)
    hosted, _ = step_seconds(
        WorkerEnvironment("miniworld", "coevolve_environments.miniworld.miniworld_environment:Miniworld")
    )
    inside, _ = step_seconds(make("miniworld"))
    print(f"a worker adds {1e3 * (hosted - inside):.3f} ms per call")


if __name__ == "__main__":
    main()

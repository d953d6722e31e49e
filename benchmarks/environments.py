"""Steps a second in process, on references. `python benchmarks/environments.py`"""

import time

from coevolve.environments import make, names
from coevolve.errors import CoevolveError


def main() -> None:
    for name in names():
        try:
            world = make(name)
        except CoevolveError as error:
            print(f"{name}: {error}")
            continue
        session = world.open()
        steps, seconds = 0, 0.0
        tasks = world.tasks("seed")[:64]
        while steps < 20_000:
            for task in tasks:
                session.reset(task)
                for turn in task.reference:
                    began = time.perf_counter()
                    for call in turn:
                        session.step(call)
                    seconds += time.perf_counter() - began
                    steps += len(turn)
                    session.say("")
        print(f"{name}: {1e6 * seconds / steps:.1f} us a step over {steps} steps")


if __name__ == "__main__":
    main()

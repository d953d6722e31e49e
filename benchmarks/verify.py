"""Measure candidates judged per second with all gates, by two processes. `python benchmarks/verify.py [--count 2000]`

With `--ray`, it alternates between two processes of this machine and two of a Ray cluster on this machine, and prints the ratio of
their speeds. The cluster runs before the measurement; its workers do not.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from coevolve.core.errors import CoevolveError
from coevolve.core.workers import Compute, Engine, Local, engine
from coevolve.environments.fingerprint import fingerprint_of
from coevolve.environments.knowledge import learn
from coevolve.environments.registry import make
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.schema import load
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library

CONFIG = load(Path(__file__).parent.parent / "params.yaml").explore.model_copy(update={"explorations": 0, "tries": 6})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--environment", nargs="*", default=["miniworld", "bfcl"])
    args = parser.parse_args()
    for name in args.environment:
        try:
            world = make(name)
        except CoevolveError as error:
            print(f"{name}: {error}")
            continue
        tasks = world.tasks("seed")[:64]
        wanted = requests(world, tasks, [], [], CONFIG.model_copy(update={"explorations": args.count}), 0, 0)
        explored = explore(ScriptedExplorer(world, learn(world, tasks, []), CONFIG), wanted, lambda count: None)
        candidates = synthesize(ScriptedSynthesizer(world, tasks, 0), explored, args.count, lambda count: None)
        lines = [json.dumps(asdict(one)) for one in candidates]
        panels = {panel: world.tasks(panel) for panel in world.panels}
        judge = partial(verify, name, lines)
        speeds: dict[str, list[float]] = {one: [] for one in (["local", "ray"] if args.ray else ["local"])}
        for _ in range(args.rounds):
            for one, found in speeds.items():
                with _engine(one, args.processes, name) as workers:
                    began = time.perf_counter()
                    judged = judge(Library(tasks, panels, 0.9), engine=workers)
                    found.append(len(lines) / (time.perf_counter() - began))
                accepted = sum(verdict.accepted for verdict, _ in judged)
        for one, found in speeds.items():
            print(
                f"{name}: {median(found):.0f} candidates/s by {one} ({len(lines)}, {accepted} accepted), start included"
            )
        if args.ray:
            print(f"{name}: ray at {median(speeds['ray']) / median(speeds['local']):.2f} times the speed of local")


@contextmanager
def _engine(name: str, processes: int, environment: str) -> Iterator[Engine]:
    if name == "local":
        yield Local(processes)
        return
    with engine(Compute(engine="ray", address="here", cpus=1), partial(fingerprint_of, environment)) as cluster:
        assert cluster is not None
        if cluster.count != processes:
            raise SystemExit(
                f"the cluster has {cluster.count} CPUs: --processes {cluster.count} compares like with like"
            )
        yield cluster


if __name__ == "__main__":
    main()

"""Candidates judged a second with all gates, by two processes. `python benchmarks/verify.py [--count 2000]`"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.yaml_files import load
from coevolve.environments.registry import make
from coevolve.knowledge import learn
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library

CONFIG = load(Path(__file__).parent.parent / "params.yaml").explore.model_copy(update={"explorations": 0, "tries": 6})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    for name in ("miniworld", "bfcl"):
        try:
            world = make(name)
        except CoevolveError as error:
            print(f"{name}: {error}")
            continue
        tasks = world.tasks("seed")[:64]
        wanted = requests(world, tasks, [], [], CONFIG.model_copy(update={"explorations": args.count}), 0, 0)
        found = explore(ScriptedExplorer(world, learn(world, tasks, []), CONFIG), wanted, lambda count: None)
        candidates = synthesize(ScriptedSynthesizer(world, tasks, 0), found, args.count, lambda count: None)
        lines = [json.dumps(asdict(one)) for one in candidates]
        panels = {panel: world.tasks(panel) for panel in world.panels}
        began = time.perf_counter()
        judged = verify(name, lines, Library(tasks, panels, 0.9), processes=args.processes)
        seconds = time.perf_counter() - began
        accepted = sum(verdict.accepted for verdict, _ in judged)
        print(f"{name}: {len(lines) / seconds:.0f} candidates/s ({len(lines)}, {accepted} accepted), start included")


if __name__ == "__main__":
    main()

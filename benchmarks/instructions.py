"""How new tasks are worded where no phrasebook and no LLM helps: does a person say it, and does the agent understand it?

For each environment the script explores without signals, synthesizes, verifies, and prints

- the share of instructions without an identifier: no tool or argument of several words is named, spelled or spaced,
- with --policy, the pass rate on the new tasks beside the pass rate on the panels' tasks of the same chains of tools,
- twenty instructions, to be read aloud.

  python benchmarks/instructions.py miniworld sql bfcl_single
  python benchmarks/instructions.py desk/helpdesk.py:Helpdesk --policy desk/policies/0

miniworld plays without its phrasebook here: its words are learned from its training tasks.
"""

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from coevolve.core.io import write_jsonl
from coevolve.core.task import Task
from coevolve.endpoint.spending import metered
from coevolve.environments.environment import Environment, Phrasebook
from coevolve.environments.registry import make, register
from coevolve.policies.loading import playing
from coevolve.rollout import Limits
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import carry_out, plan
from coevolve.stages.schema import load
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.synthesize.synthesizer import candidates_of
from coevolve.stages.verify.judge import accepted, read_lines, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import pass_counts
from coevolve.words.learned_phrases import learned_phrases
from coevolve.words.phrase_generator import spaced
from coevolve_environments.miniworld.miniworld_environment import Miniworld

EXPLORATIONS, CANDIDATES, SHOWN, SAMPLES, SEED = 300, 200, 20, 4, 57


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+")
    parser.add_argument("--policy", type=Path, help="the policy to play the tasks of the only environment")
    arguments = parser.parse_args()
    Miniworld.phrasebook = Phrasebook()
    for place in arguments.environments:
        environment = make(place)
        if ":" in place:
            register(type(environment))
        tasks = new_tasks(environment)
        names = identifiers(environment)
        plain = sum(
            not any(re.search(rf"\b{name}\b", task.turns[0], re.IGNORECASE) for name in names) for task in tasks
        )
        learned = learned_phrases(environment)
        taught = f"{learned.tasks - len(learned.unread)} of {learned.tasks} training tasks taught words"
        print(f"## {environment.name}: {plain} of {len(tasks)} instructions hold no identifier; {taught}\n")
        if arguments.policy:
            print(pass_rates(environment, tasks, arguments.policy) + "\n")
        random.Random(SEED).shuffle(tasks)
        print("\n".join(f"- {task.turns[0]}" for task in tasks[:SHOWN]) + "\n", flush=True)


def new_tasks(environment: Environment) -> list[Task]:
    """The accepted tasks of one round without signals."""
    known = list(environment.tasks("seed"))[:64]
    params, config = load(Path("params.yaml")), Explore(explorations=EXPLORATIONS)
    panels = {name: environment.tasks(name) for name in environment.panels}
    with TemporaryDirectory() as folder, metered(params.endpoint, False, Path(folder), None) as meter:
        planned = plan(environment, known, [], [], [], config, 0, SEED)
        found, _, _ = carry_out(planned, config, params.policy, meter, lambda count: None)
        candidates, _ = candidates_of(
            environment, known, found, Synthesize(), CANDIDATES, SEED, meter, lambda count: None
        )
        file = Path(folder) / "candidates.jsonl"
        write_jsonl(file, candidates)
        return accepted(verify(environment.name, read_lines(file), Library(known, panels, 0.9), words="values"))


def identifiers(environment: Environment) -> set[str]:
    """The names of tools and arguments that consist of several words, as they are and with spaces."""
    functions = [schema["function"] for schema in environment.tools()]
    names = {name for one in functions for name in (one["name"], *one["parameters"].get("properties", {}))}
    several = {name for name in names if " " in spaced(name) or "." in name}
    return {re.escape(form) for name in several for form in (name, spaced(name)) if form == name or " " in form}


def pass_rates(environment: Environment, tasks: Sequence[Task], policy: Path) -> str:
    params = load(Path("params.yaml"))
    own = [task for panel in environment.panels for task in environment.tasks(panel)]
    limits = Limits.of(params.policy)
    rates: list[dict[tuple[str, ...], list[float]]] = []
    with playing(policy, params.policy, 1.0) as opened_policy:
        for some in (tasks, own):
            counts = pass_counts(opened_policy, environment, some, limits, SAMPLES, SEED, lambda count: None)
            by_chain: dict[tuple[str, ...], list[float]] = defaultdict(list)
            for task in some:
                by_chain[tuple(call.name for call in task.calls)].append(counts[task.task_id].rate or 0.0)
            rates.append(by_chain)
    new, old = rates
    shared = sorted(set(new) & set(old))
    size = sum(len(new[chain]) for chain in shared)
    mine = sum(sum(new[chain]) for chain in shared) / max(size, 1)
    theirs = sum(sum(old[chain]) / len(old[chain]) * len(new[chain]) for chain in shared) / max(size, 1)
    every = sum(map(sum, new.values())) / max(len(tasks), 1)
    rows = [
        f"{' '.join(chain)}: {sum(new[chain]) / len(new[chain]):.2f} on {len(new[chain])} new, "
        f"{sum(old[chain]) / len(old[chain]):.2f} on {len(old[chain])} of the user"
        for chain in shared
    ]
    head = (
        f"pass rate on {size} new tasks whose chain the panels have: {mine:.2f}; on the user's tasks of these chains: "
    )
    return "\n".join([f"{head}{theirs:.2f}; on all {len(tasks)} new tasks: {every:.2f}", *rows])


if __name__ == "__main__":
    main()

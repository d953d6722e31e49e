"""Kitchens made from seeds, with the rules (PDDL) and the words of ALFWorld's wheel, played by TextWorld in a worker.

They are generated: neither ALFWorld's games nor ALFRED's rooms, and no score here is one of ALFWorld's. References come
from TextWorld's planner.
"""

import json
import random
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.seeding import generator
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.textworld import TOOLS, TextWorldSession, folder, keep, kept, opened

VERSION = 1
COUNTS = {"seed": 64, "validation": 32, "test": 32}
FIRST_SEED = {"seed": 10_000, "validation": 20_000, "test": 30_000}
# receptacles: their kind in the rules, whether they open, and how many there may be
RECEPTACLES = {
    "fridge": ("FridgeType", True, 1),
    "microwave": ("MicrowaveType", True, 1),
    "sinkbasin": ("SinkBasinType", False, 1),
    "countertop": ("CounterTopType", False, 2),
    "cabinet": ("CabinetType", True, 4),
    "drawer": ("DrawerType", True, 2),
    "diningtable": ("DiningTableType", False, 1),
}
WARM = ("cleanable", "heatable", "coolable")
OBJECTS = {
    "apple": WARM,
    "potato": WARM,
    "mug": WARM,
    "plate": WARM,
    "bread": WARM[1:],
    "fork": WARM[:1],
    "knife": WARM[:1],
}
# what an object must be, as the rules and as people say it; None asks for its place alone
STATES = {"": None, "clean": "isClean", "hot": "isHot", "cool": "isCool"}
NEEDS = {"isClean": "cleanable", "isHot": "heatable", "isCool": "coolable"}
TARGETS = ("countertop", "cabinet", "drawer", "diningtable")


class Kitchens(Environment):
    """Kitchens made from seeds."""

    name = "kitchens"
    license = "Apache-2.0"
    panels = ("validation", "test")

    def __init__(self) -> None:
        recipe = content_hash([VERSION, COUNTS, FIRST_SEED, RECEPTACLES, OBJECTS, STATES, TARGETS])
        self.fingerprint = f"kitchens-generated-alfworld-{version('alfworld')}-{recipe[:12]}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks(split)

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> TextWorldSession:
        return TextWorldSession("kitchens", started)

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """Another kitchen, without its goal."""
        return {"seed": 50_000 + seed % 1000, "goal": "state"}


def kitchen(seed: int) -> tuple[str, str, str]:
    """The problem of a seed in PDDL, its goal in words, and the kind of the goal."""
    rng = generator("kitchen", seed)
    receptacles = [
        (f"{kind}_{number + 1}", kind)
        for kind, (_, _, most) in RECEPTACLES.items()
        for number in range(rng.randint(1, most))
    ]
    places = {name: rng.choice(receptacles) for name in OBJECTS}
    thing, state, target = _goal(rng, places)
    facts = ["(atLocation agent1 loc_0)"]
    for number, (name, kind) in enumerate(receptacles, 1):
        rule, opens, _ = RECEPTACLES[kind]
        facts += [f"(receptacleAtLocation {name} loc_{number})", f"(receptacleType {name} {rule})"]
        facts += [f"(openable {name})"] * opens
    facts += [f"(canContain {rule} {one}Type)" for rule, _, _ in RECEPTACLES.values() for one in OBJECTS]
    for one, abilities in OBJECTS.items():
        at = receptacles.index(places[one]) + 1
        facts += [
            f"(objectType {one}_1 {one}Type)",
            f"(pickupable {one}_1)",
            f"(inReceptacle {one}_1 {places[one][0]})",
        ]
        facts += [f"(objectAtLocation {one}_1 loc_{at})", *(f"({ability} {one}_1)" for ability in abilities)]
    wanted = [f"(objectType ?o {thing}Type)", f"(receptacleType ?r {RECEPTACLES[target][0]})", "(inReceptacle ?o ?r)"]
    wanted += [f"({STATES[state]} ?o)"] if state else []
    problem = f"""(define (problem kitchen_{seed}) (:domain alfred)
(:objects agent1 - agent {" ".join(f"loc_{number}" for number in range(len(receptacles) + 1))} - location
{" ".join(name for name, _ in receptacles)} - receptacle {" ".join(f"{one}_1" for one in OBJECTS)} - object
{" ".join(rule for rule, _, _ in RECEPTACLES.values())} - rtype {" ".join(f"{one}Type" for one in OBJECTS)} - otype)
(:init {" ".join(facts)} (= (total-cost) 0))
(:goal (exists (?o - object ?r - receptacle) (and {" ".join(wanted)})))
(:metric minimize (total-cost)))"""
    words = ["put a", *([state] if state else []), thing, "in a" if RECEPTACLES[target][1] else "on a", target]
    return problem, " ".join(words), state or "put"


def _goal(rng: random.Random, places: dict[str, tuple[str, str]]) -> tuple[str, str, str]:
    """An object, what it must be, and where: something that is not so yet."""
    while True:
        thing, state, target = rng.choice(sorted(OBJECTS)), rng.choice(sorted(STATES)), rng.choice(TARGETS)
        rule = STATES[state]
        if places[thing][1] != target and (rule is None or NEEDS[rule] in OBJECTS[thing]):
            return thing, state, target


def started(world: dict[str, Any], **more: bool) -> Any:
    """TextWorld's game of a kitchen."""
    file = folder() / f"kitchen-{VERSION}-{world['seed']}.tw-pddl"
    if not file.exists():
        keep(file, json.dumps({**_rules(), "pddl_problem": kitchen(int(world["seed"]))[0], "solvable": True}))
    return opened(file, **more)


@cache
def _rules() -> dict[str, str]:
    """ALFWorld's domain and grammar, from its wheel."""
    spec = find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise CoevolveError("kitchens is not installed; run `coevolve env install kitchens`")
    data = Path(spec.origin).parent / "data"
    return {"pddl_domain": (data / "alfred.pddl").read_text(), "grammar": (data / "alfred.twl2").read_text()}


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    return kept(Kitchens().fingerprint, split, _generated)


def _generated(split: str) -> list[Task]:
    found: dict[str, Task] = {}
    for seed in range(FIRST_SEED[split], FIRST_SEED[split] + COUNTS[split]):
        world = {"seed": seed}
        game = started(world, policy_commands=True)
        commands = game.reset().policy_commands
        game.close()
        _, words, kind = kitchen(seed)
        calls = [ToolCall("commands"), *(ToolCall("act", {"command": command}) for command in commands)]
        task = Task.create("kitchens", split, [words], world, [calls], [kind])
        found[task.task_id] = task
    return list(found.values())

"""reasoning-gym's generators as an environment that constructs tasks of known difficulty. Runs in a worker.

A goal is a generator with a level of its curriculum (``lcm_2``). Every attribute has exactly that level. A task is one problem in
a line. An answer ends the episode without feedback, and reasoning-gym's checker scores it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve_environments.episode import PARTIAL, AdapterSession, tool

NAME = "reasoning_gym"
VERSION = 1  # of the rules that turn problems into tasks
LEVELS = 4
EACH = 2  # tasks of a goal in a split
FLOOR = 0.01  # score that checkers give for any answer
TOO_LONG = 10_000  # most characters of an answer
# A generator's problem in words, from its metadata. The generators' own questions share so much text that any two of them are
# near-duplicates. `gcd` and `letter_counting` are missing: 1 is the answer to 87 of 100 problems of gcd's highest level, and to
# 46 of 100 of letter_counting's lowest, so their levels say nothing about difficulty.
WORDS: Mapping[str, str] = {
    "base_conversion": "convert {source_repr} from base {source_base} to base {target_base}",
    "basic_arithmetic": "calculate {expression}",
    "bitwise_arithmetic": "calculate {problem} , in hexadecimal",
    "chain_sum": "add up {expression}",
    "count_bits": "how many bits of {number} are 1 ?",
    "count_primes": "how many primes are there from {start} to {end} ?",
    "decimal_chain_sum": "add up {expression} exactly",
    "lcm": "what is the least common multiple of {numbers} ?",
    "leg_counting": "how many legs have {animals} together ?",
    "products": "multiply {expression}",
    "simple_equations": "solve {equation} for {variable}",
    "spell_backward": "spell {word} backward",
}
SPLITS = ("seed", "validation", "test", "hard")
GOALS = tuple(f"{name}_{level}" for name in WORDS for level in range(LEVELS))
TOOLS = [tool("answer", "Give the answer to the problem; this ends the task", value="the answer alone")]


class ReasoningGym(Environment):
    """Problems of known difficulty."""

    name = NAME
    license = "Apache-2.0"
    panels = SPLITS[1:]
    goals = GOALS

    def __init__(self) -> None:
        recipe = content_hash([VERSION, LEVELS, EACH, WORDS])
        self.fingerprint = f"{NAME}-{version('reasoning-gym')}-{recipe[:12]}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks()[split]

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "ReasoningGymSession":
        return ReasoningGymSession()

    def construct(self, goal: str, seed: int) -> Task:
        if goal not in GOALS:
            raise CoevolveError(f"{NAME} constructs no {goal!r}; expected one of: {', '.join(GOALS)}")
        return constructed(goal, seed, "constructed")

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        return {**task.world, "seed": seed}


class ReasoningGymSession(AdapterSession):
    """An episode with one problem and one answer."""

    environment = NAME

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self._world = task.world["goal"], task.world["seed"]
        self._given: str | None = None
        return TOOLS

    def reset(self, task: Task) -> Observation:
        return replace(super().reset(task), content=words(*self._world))

    def act(self, call: ToolCall) -> Observation:
        value = call.arguments.get("value")
        if call.name != "answer" or set(call.arguments) != {"value"} or not isinstance(value, str):
            return Observation("tool", "expected answer(value), a text", error=True)
        if len(value) > TOO_LONG:
            return Observation("tool", f"longer than {TOO_LONG} characters", error=True)
        self._given = value
        return Observation("tool", "taken", done=True)

    def judge(self, task: Task) -> Score:
        got = 0.0 if self._given is None else _judged(*self._world, self._given)
        right = got == 1.0  # a longer answer can add up to more than 1
        return Score(1.0 if right else PARTIAL * min(max(got - FLOOR, 0.0), 1.0), {"right": right})

    def digest(self) -> str:
        return "" if self.task is None else content_hash([words(*self._world), self._given])


def _judged(goal: str, seed: int, answer: str) -> float:
    """The checker's score, 1 for a correct answer. The checker raises an error for many unreadable answers."""
    made, entry = _problem(goal, seed)
    try:
        return float(made.score_answer(answer, entry))
    except Exception:
        return 0.0


def words(goal: str, seed: int) -> str:
    """The problem as one line."""
    known = _problem(goal, seed)[1]["metadata"]
    return WORDS[goal.rsplit("_", 1)[0]].format_map({key: _said(value) for key, value in known.items()})


def _said(value: Any) -> str:
    if isinstance(value, Mapping):  # animals
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) if all(isinstance(one, int) for one in value) else " ".join(map(str, value))
    return str(value)


def constructed(goal: str, seed: int, split: str) -> Task:
    answer = str(_problem(goal, seed)[1]["answer"])
    call = ToolCall("answer", {"value": answer})
    return Task.create(NAME, split, [words(goal, seed)], {"goal": goal, "seed": seed}, [[call]], [goal])


@lru_cache(maxsize=4096)
def _problem(goal: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """The generator, which holds the checker, and its problem with the number ``seed``."""
    made = _generator(goal)
    return made, made[seed]


@cache
def _generator(goal: str) -> Any:
    """The generator of ``goal`` at its level. Cached, because some generators count primes for a second at first."""
    from reasoning_gym.coaching.base_curriculum import RangeAttributeDefinition
    from reasoning_gym.factory import CURRICULA, DATASETS

    name, _, level = goal.rpartition("_")
    curriculum = CURRICULA[name]()
    for attribute, definition in curriculum.attributes.items():
        curriculum.set_attr_level(attribute, min(int(level), len(definition.levels) - 1))
    config = curriculum.generate_configuration({"seed": 0, "size": 1})
    for definition in curriculum.attributes.values():
        if isinstance(definition, RangeAttributeDefinition):
            highest = getattr(config, definition.upper_field_name)
            below = [one for one in definition.levels if one < highest]
            lowest = below[-1] if definition.ensure_interval and below else highest
            setattr(config, definition.lower_field_name, lowest)
    return DATASETS[name][0](config)


@cache
def _tasks() -> Mapping[str, tuple[Task, ...]]:
    """The tasks of each split: a few problems of each goal, in `hard` only of the highest level. No task is in two splits."""
    found: dict[str, tuple[Task, ...]] = {}
    said: set[str] = set()
    for split in SPLITS:
        goals = [goal for goal in GOALS if split != "hard" or goal.endswith(f"_{LEVELS - 1}")]
        found[split] = tuple(task for goal in goals for task in _problems(split, goal, said))
    return found


def _problems(split: str, goal: str, said: set[str]) -> Iterator[Task]:
    """``EACH`` problems that are not in ``said``."""
    wanted = len(said) + EACH
    for number in count():
        task = constructed(goal, derive_seed(NAME, split, goal, number) % 2**31, split)
        if task.turns[0] not in said:
            said.add(task.turns[0])
            yield task
        if len(said) == wanted:
            return


# needs a C compiler: the package imports a solver that is distributed as source
HOSTED = Hosted(
    NAME, f"{__name__}:ReasoningGym", Path(__file__).parents[1] / "requirements/reasoning_gym.txt", each=256
)

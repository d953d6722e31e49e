"""BFCL multi-turn, all four categories, without BFCL's executor. Split by index: the same index is one scenario in every category.

The package's executor evaluates model text and keeps instances in globals, which parallel rollouts would share. Here every
session has its own instances, methods come from a table of the documented functions, and arguments are JSON. The package's
``state_checker`` and ``response_checker`` judge, with the official semantics. After each turn that has an answer, the states
must agree, and the answer's outputs must be among the model's outputs so far. Extra calls are allowed. A turn fails if it has
an answer and no call, or more than 20 steps.
"""

import copy
import decimal
import inspect
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall, misfit
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve_environments.bfcl.data import DOCS, api_class, documented, fingerprint, items, parse_call
from coevolve_environments.episode import PARTIAL, AdapterSession

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
# Scenarios that no agent can be expected to solve. We read every answer with a value that occurs in no earlier user turn or
# observation. gorilla#1367 counts 27 of the 200 base items that none of 18 models passes. Items of these without a certain
# defect stay in the panels.
SCENARIOS = {
    4: "the answer's post holds words in an order that sort() does not produce (gorilla#1367)",
    173: "the id of the ticket to close is stated nowhere, and listing tickets needs a login that is not given either",
    176: "the user dictates a description with the year 2026, the answer's says 2023, and the text is compared",
    187: "the answer's description of the ticket is free text that the user does not dictate, and it is compared",
    188: "the answer's failed login, with a password stated nowhere, must be among the outputs",
}
QUARANTINE = {
    f"multi_turn_{category}_{index}": reason
    for category in ("base", "miss_func", "miss_param", "long_context")
    for index, reason in SCENARIOS.items()
}
ARRIVED = "I have updated some more functions you can choose from. What about now?"  # the benchmark's words


class BFCL(Environment):
    """BFCL's multi-turn items.

    ``seed`` holds the even scenarios, base category first, without the scenarios in quarantine, which form a separate split.
    The panels are complete.
    """

    name = "bfcl"
    license = "Apache-2.0"
    panels = ("validation", "test")
    more_splits = ("quarantine",)
    quarantine = QUARANTINE

    def __init__(self) -> None:
        self.fingerprint = fingerprint(CATEGORIES)

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _splits()[split]

    def tools(self) -> Sequence[dict[str, Any]]:
        return [schema for name in DOCS for schema in documented(name).values()]

    def open(self) -> "BFCLSession":
        return BFCLSession()

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """The start state of ``task``, with every function offered from the first turn."""
        return {key: value for key, value in task.world.items() if key != "missed_function"}

    def category(self, task: Task) -> str:
        return str(task.world["id"]).rsplit("_", 1)[0]


@cache
def _splits() -> dict[str, tuple[Task, ...]]:
    """The tasks of each split. Even indices are for training; odd indices alternate between validation and test."""
    splits: dict[str, list[Task]] = {"seed": [], "validation": [], "test": [], "quarantine": []}
    for category in CATEGORIES:
        for row, answer in items(category):
            index = int(row["id"].rsplit("_", 1)[1])
            split = "seed" if index % 2 == 0 else ("validation", "test")[index // 2 % 2]
            if split == "seed" and row["id"] in QUARANTINE:
                split = "quarantine"
            splits[split].append(_task(row, answer, split))
    return {name: tuple(tasks) for name, tasks in splits.items()}


def _task(row: dict[str, Any], answer: list[list[str]], split: str) -> Task:
    world = {key: row[key] for key in ("id", "initial_config", "involved_classes")}
    world["excluded_function"] = row.get("excluded_function", [])
    if "missed_function" in row:
        world["missed_function"] = row["missed_function"]
    names = sorted(row["involved_classes"])
    reference = [[parse_call(text, names) for text in turn] for turn in answer]
    turns = [
        "\n".join(message["content"] for message in turn) if turn else _arrival(world, number)
        for number, turn in enumerate(row["question"])
    ]
    return Task.create("bfcl", split, turns, world, reference, ["+".join(names), *names])


def _arrival(world: dict[str, Any], turn: int) -> str:
    """The user's message when functions arrive. It holds their schemas, so that a chat's first message does not change."""
    names = hidden(world, turn - 1) - hidden(world, turn)
    schemas = [documented(group)[name] for group in world["involved_classes"] for name in documented(group)]
    return "\n".join([*(json.dumps(one) for one in schemas if one["function"]["name"] in names), ARRIVED])


PRECISE = frozenset({"logarithm", "square_root"})  # functions that set the precision of all later computations
MAX_STEPS = 20  # most replies with calls in a turn; the benchmark ends an episode that needs more

Instances = dict[str, Any]


class BFCLSession(AdapterSession):
    """An episode on an item, with the package's own API classes.

    The reward ignores the check ``strict``. It passes if the agent makes no call in a turn without an answer, calls only
    offered functions, and does not repeat a call that changes the state and that the answer makes once.
    """

    environment = "bfcl"

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self._item = task
        self._instances = _instances(task)
        # function name → API class; also of functions that were not offered
        self._owners = {name: group for group in self._instances for name in documented(group)}
        self._turn = self._steps = self._passed = 0
        self._heard: list[list[str]] = [[]]
        self._made: Counter[str] = Counter()  # calls of this turn, by content
        self._failed, self._strict = "", True
        return offered(task, 0)

    def begin_reply(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            self._failed, self.over = self._failed or "steps", True

    def act(self, call: ToolCall) -> Observation:
        if wrong := misfit(call.name, call.arguments):
            self._heard[-1].append(content := f"Error during execution: {wrong}")
            return Observation("tool", content, error=True)
        repeated = self._made[key := content_hash([call.name, call.arguments])]
        self._made[key] += 1
        answer = self._item.reference[self._turn] if self._turn < len(self._item.reference) else []
        self._strict = self._strict and bool(answer) and call.name not in hidden(self._item.world, self._turn)
        if call.name not in self._owners:
            self._heard[-1].append(content := "Error during execution: no such function")
            return Observation("tool", content, error=True)
        before = self.digest() if repeated else ""
        content = execute(self._instances[self._owners[call.name]], call)
        if repeated and repeated >= answer.count(call) and self.digest() != before:
            self._strict = False
        self._heard[-1].append(content)
        return Observation("tool", content, error=_refused(content))

    def say(self, text: str) -> Observation:
        if self.task is None or self.over:
            return Observation("user", "", done=True)
        self._failed = self._failed or self._check_turn()
        self._passed += not self._failed
        self._turn, self._steps, self._made = self._turn + 1, 0, Counter()
        if self._turn >= len(self._item.turns):
            self.over = True
            return Observation("user", "", done=True)
        self._heard.append([])
        arrived = str(self._turn) in self._item.world.get("missed_function", {})
        tools = offered(self._item, self._turn) if arrived else None
        return Observation("user", self._item.turns[self._turn], tools=tools)

    def _check_turn(self) -> str:
        """The name of the package's check that the turn fails so far; empty if it fails none."""
        from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

        truth = _truth(self._item)[self._turn]
        if truth is None:
            return ""
        if not self._heard[-1]:
            return "called"
        instances, outputs = truth
        if not state_checker(self._instances, instances)["valid"]:
            return "state"
        said = [content for turn in self._heard for content in turn]
        return "" if response_checker(said, outputs, self._turn)["valid"] else "response"

    def judge(self, task: Task) -> Score:
        """Judge the episode. An unfinished last turn counts as if it ended here. Missing turns fail."""
        passed, failed = self._passed, self._failed
        turns = len(task.reference)
        if not failed and passed < turns and not (failed := self._check_turn()):
            passed += 1
            if any(task.reference[passed:]):
                failed = "called"
        checks = {name: failed != name for name in ("called", "state", "response", "steps")}
        checks["strict"] = not failed and self._strict
        return Score(PARTIAL * passed / turns if failed else 1.0, checks)

    def digest(self) -> str:
        return content_hash([_plain(instance, {}) for _, instance in sorted(self._instances.items())])


def execute(instance: Any, call: ToolCall) -> str:
    """The observation of a documented call, in the words of the package's executor.

    The name must be in the table of documented functions.
    """
    try:
        arguments = {**_defaults(instance.__class__, call.name), **call.arguments}
        with _contained(call.name):  # includes the conversion to text: the digits depend on the precision
            result = getattr(instance, call.name)(**copy.deepcopy(arguments))
            if isinstance(result, dict):
                try:
                    return json.dumps(result)
                except (TypeError, ValueError):
                    pass
            return str(result)
    except Exception as error:
        return f"Error during execution: {error}"


@contextmanager
def _contained(name: str) -> Iterator[None]:
    """A call in this block starts with the default precision of decimal and mpmath, and does not change that of other calls."""
    if name not in PRECISE:
        yield
        return
    with decimal.localcontext(decimal.DefaultContext):
        mpmath = sys.modules.get("mpmath")
        if mpmath is None:
            yield
            return
        with mpmath.workdps(15):
            yield


@cache
def _defaults(owner: Any, name: str) -> dict[str, Any]:
    """Copies of the mutable default values of a function, from before any call.

    Some functions change their default values, so sessions would affect each other. They get these copies instead.
    """
    parameters = inspect.signature(getattr(owner, name)).parameters.values()
    return {one.name: copy.deepcopy(one.default) for one in parameters if isinstance(one.default, list | dict)}


def _refused(content: str) -> bool:
    if content.startswith("Error during execution"):
        return True
    try:
        value = json.loads(content)
    except ValueError:
        return False
    return isinstance(value, dict) and "error" in value


def hidden(world: dict[str, Any], turn: int) -> set[str]:
    """Functions that a turn does not offer: excluded functions, and functions that arrive later."""
    later = world.get("missed_function", {})
    return {*world.get("excluded_function", []), *(name for key in later if int(key) > turn for name in later[key])}


def offered(task: Task, turn: int) -> list[dict[str, Any]]:
    """The schemas of the functions offered in a turn."""
    kept_back = hidden(task.world, turn)
    return [
        schema
        for group in task.world["involved_classes"]
        for name, schema in documented(group).items()
        if name not in kept_back
    ]


def _instances(task: Task) -> Instances:
    """Fresh instances of the classes of the task's world."""
    found = {}
    config = json.loads(_config(task))
    long = "long_context" in task.world["id"]
    for name in task.world["involved_classes"]:
        instance = api_class(name)()
        if name != "MathAPI":
            instance._load_scenario(config.get(name, {}), long_context=long)
        if name == "TravelAPI":  # all instances share the card objects that it adds to a long context
            instance.credit_card_list = copy.deepcopy(instance.credit_card_list)
        found[name] = instance
    return found


@lru_cache(maxsize=1024)
def _config(task: Task) -> str:
    return json.dumps(task.world["initial_config"])


@lru_cache(maxsize=256)
def _truth(task: Task) -> list[tuple[Instances, list[str]] | None]:
    """For each turn with an answer, the instances after it and the answer's outputs. Callers must not change them."""
    instances = _instances(task)
    owner = {name: group for group in instances for name in documented(group)}
    found: list[tuple[Instances, list[str]] | None] = []
    for number, turn in enumerate(task.reference):
        outputs = [
            execute(instances[owner[call.name]], call)
            if call.name in owner
            else "Error during execution: no such function"
            for call in turn
        ]
        last = number + 1 == len(task.reference)
        found.append(((instances if last else copy.deepcopy(instances)), outputs) if turn else None)
    return found


def _plain(value: Any, seen: dict[int, int]) -> Any:
    """Mutable state as JSON: objects by their attributes, repeated objects by number, without clocks."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, random.Random):
        return content_hash(value.getstate())
    if isinstance(value, datetime):
        return "time"
    if id(value) in seen:
        return f"#{seen[id(value)]}"
    if isinstance(value, dict):
        return {str(key): _plain(inner, seen) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, seen) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(str(inner) for inner in value)
    seen[id(value)] = len(seen)
    return {key: _plain(inner, seen) for key, inner in vars(value).items() if key != "_api_description"}


# In a process of its own: a call can hold the interpreter's lock for ever. A call takes microseconds, a session is small.
HOSTED = Hosted(
    "bfcl",
    f"{__name__}:BFCL",
    Path(__file__).parents[1] / "requirements/bfcl.txt",
    each=512,
    seconds=10.0,
    memory=4 << 30,
    beside=True,
)

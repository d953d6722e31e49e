"""BFCL multi-turn behind our protocol, without its executor.

The package's executor evaluates model text and keeps instances in globals, shared by parallel rollouts. Here every
session has its own instances, methods come from a table built of the documented functions, arguments are JSON, and the
verdict is that of the package's own ``state_checker`` and ``response_checker``. Official semantics: after each turn
that has an answer, states are compared and the answer's outputs must be among the model's so far; extra calls are
allowed; a turn with an answer and no call fails, as does one of more than 20 steps.
"""

import ast
import copy
import hashlib
import inspect
import json
import random
from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.errors import CoevolveError
from coevolve.records import Score, Task, ToolCall, Turn, content_hash

CATEGORY = "multi_turn_base"
MAX_STEPS = 20  # calls in a turn; the benchmark ends an episode that needs more
MAX_ARGUMENTS = 20_000  # characters of JSON
PARTIAL = 0.49  # what a run without success can reach
DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
_SOURCES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_SCHEMA_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}

Instances = dict[str, Any]


class BFCL:
    """See ``coevolve.environments.base.Environment``. Items are split by index: a scenario is in one split only."""

    name = "bfcl"
    panels = ("validation", "test")

    def __init__(self) -> None:
        data = _data()
        content = b"".join(_items_file(folder).read_bytes() for folder in (data, data / "possible_answer"))
        self.fingerprint = f"bfcl-eval-{version('bfcl-eval')}-{hashlib.sha256(content).hexdigest()[:12]}"

    def tasks(self, split: str) -> Sequence[Task]:
        try:
            return _split()[split]
        except KeyError:
            raise CoevolveError(
                f"bfcl has no split {split!r}; expected one of: seed, {', '.join(self.panels)}"
            ) from None

    def tools(self) -> Sequence[dict[str, Any]]:
        return [schema for name in DOCS for schema in _documented(name).values()]

    def open(self) -> "BFCLSession":
        return BFCLSession()

    def reference(self, task: Task) -> list[list[ToolCall]]:
        return task.reference


class BFCLSession:
    """See ``coevolve.environments.base.Session``."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._instances: Instances = {}
        self._tools: dict[str, tuple[str, dict[str, Any]]] = {}
        self._turn = 0
        self._steps = 0
        self._heard: list[list[str]] = []
        self._failed: str = ""
        self._passed = 0
        self._over = False

    def reset(self, task: Task) -> Turn:
        if task.environment != "bfcl":
            raise CoevolveError(f"task {task.task_id} belongs to environment {task.environment!r}, expected 'bfcl'")
        self._task = task
        self._instances = _instances(task)
        self._tools = {
            name: (group, schema)
            for group in task.world["involved_classes"]
            for name, schema in _documented(group).items()
            if name not in task.world.get("excluded_function", [])
        }
        self._turn, self._steps, self._heard, self._failed, self._over = 0, 0, [[]], "", False
        self._passed = 0
        return Turn("user", task.turns[0] if task.turns else "", tools=[schema for _, schema in self._tools.values()])

    def step(self, call: ToolCall) -> Turn:
        if self._over:
            return Turn("tool", "the episode is over", error=True, done=True)
        self._steps += 1
        if self._steps > MAX_STEPS:
            self._failed, self._over = self._failed or "steps", True
            return Turn("tool", f"more than {MAX_STEPS} calls in a turn", error=True, done=True)
        known = self._tools.get(call.name)
        if known is None:
            self._heard[-1].append(content := "Error during execution: no such function")
            return Turn("tool", content, error=True)
        content = execute(self._instances[known[0]], call)
        self._heard[-1].append(content)
        return Turn("tool", content, error=_refused(content))

    def say(self, text: str) -> Turn:
        if self._task is None or self._over:
            return Turn("user", "", done=True)
        self._failed = self._failed or self._check_turn()
        self._passed += not self._failed
        self._turn, self._steps = self._turn + 1, 0
        if self._turn >= len(self._task.turns):
            self._over = True
            return Turn("user", "", done=True)
        self._heard.append([])
        return Turn("user", self._task.turns[self._turn])

    def _check_turn(self) -> str:
        """The name of the check that the turn so far fails, by the package's checkers; empty if none."""
        from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

        assert self._task is not None
        truth = _truth(_Keyed(self._task))[self._turn]
        if truth is None:
            return ""
        if not self._heard[-1]:
            return "called"
        instances, outputs = truth
        if not state_checker(self._instances, instances)["valid"]:
            return "state"
        said = [content for turn in self._heard for content in turn]
        return "" if response_checker(said, outputs, self._turn)["valid"] else "response"

    def score(self) -> Score:
        """The unfinished turn, if it is the last one, is judged as if it ended here; missing turns fail."""
        if self._task is None:
            raise CoevolveError("score() before reset(): no task was started")
        passed, failed = self._passed, self._failed
        turns = len(self._task.reference)
        if not failed and passed < turns and not (failed := self._check_turn()):
            passed += 1
            if any(self._task.reference[passed:]):
                failed = "called"
        checks = {name: failed != name for name in ("called", "state", "response", "steps")}
        if not failed:
            return Score(1.0, checks)
        return Score(PARTIAL * passed / turns, checks)

    def digest(self) -> str:
        return content_hash([_plain(instance, {}) for _, instance in sorted(self._instances.items())])

    def close(self) -> None:
        self._task = None
        self._instances = {}


def execute(instance: Any, call: ToolCall) -> str:
    """The observation of a documented call, in the words of the package's executor.

    The name must come from the table of documented functions.
    """
    if len(json.dumps(call.arguments)) > MAX_ARGUMENTS:
        return f"Error during execution: arguments are longer than {MAX_ARGUMENTS} characters"
    try:
        arguments = {**_defaults(instance.__class__, call.name), **call.arguments}
        result = getattr(instance, call.name)(**copy.deepcopy(arguments))
        if isinstance(result, str):
            return result
        if isinstance(result, dict):
            try:
                return json.dumps(result)
            except (TypeError, ValueError):
                return str(result)
        return str(result)
    except Exception as error:
        return f"Error during execution: {error}"


@cache
def _defaults(owner: Any, name: str) -> dict[str, Any]:
    """Mutable default values of a function as they were before any call.

    Some functions change theirs, through which sessions would touch each other: they are given copies instead.
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


def _instances(task: Task) -> Instances:
    """Fresh instances of the classes of the task's world."""
    found = {}
    config = json.loads(_config(_Keyed(task)))
    for name in task.world["involved_classes"]:
        instance = _class(name)()
        if name != "MathAPI":
            instance._load_scenario(config.get(name, {}), long_context=False)
        found[name] = instance
    return found


class _Keyed:
    """A task that hashes by its id (which candidates and drafts may share: so equality looks at the content)."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task = task

    def __hash__(self) -> int:
        return hash(self.task.task_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and (
            other.task is self.task
            or (other.task.world == self.task.world and other.task.reference == self.task.reference)
        )


@lru_cache(maxsize=1024)
def _config(keyed: _Keyed) -> str:
    return json.dumps(keyed.task.world["initial_config"])


@lru_cache(maxsize=256)
def _truth(keyed: _Keyed) -> list[tuple[Instances, list[str]] | None]:
    """Per turn with an answer: the instances after it, and the answer's outputs. Nobody may change them."""
    instances = _instances(keyed.task)
    owner = {name: group for group in instances for name in _documented(group)}
    found: list[tuple[Instances, list[str]] | None] = []
    for number, turn in enumerate(keyed.task.reference):
        outputs = [
            execute(instances[owner[call.name]], call)
            if call.name in owner
            else "Error during execution: no such function"
            for call in turn
        ]
        last = number + 1 == len(keyed.task.reference)
        found.append(((instances if last else copy.deepcopy(instances)), outputs) if turn else None)
    return found


@cache
def _class(name: str) -> Any:
    if name not in DOCS:
        raise CoevolveError(f"bfcl has no API {name!r}; expected one of: {', '.join(DOCS)}")
    return getattr(import_module(f"{_SOURCES}.{DOCS[name]}"), name)


def _data() -> Path:
    spec = find_spec("bfcl_eval")
    try:
        version("bfcl-eval")
    except PackageNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise CoevolveError("bfcl is not installed; run `coevolve env install bfcl`")
    return Path(spec.origin).parent / "data"


def _items_file(folder: Path) -> Path:
    return folder / f"BFCL_v4_{CATEGORY}.json"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


@cache
def _documented(name: str) -> dict[str, dict[str, Any]]:
    """OpenAI schemas by function name, of the functions of an API that are documented."""
    return {
        doc["name"]: {
            "type": "function",
            "function": {
                "name": doc["name"],
                "description": doc["description"].split("Tool description: ")[-1],
                "parameters": _schema(doc["parameters"]),
            },
        }
        for doc in _lines(_data() / "multi_turn_func_doc" / f"{DOCS[name]}.json")
    }


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema of what the package writes with Python's type names."""
    new = {**schema, "type": _SCHEMA_TYPES.get(schema.get("type", "string"), schema.get("type", "string"))}
    if "properties" in schema:
        new["properties"] = {key: _schema(value) for key, value in schema["properties"].items()}
    if "items" in schema:
        new["items"] = _schema(schema["items"])
    return new


@cache
def _split() -> dict[str, tuple[Task, ...]]:
    """Even indices are for training; odd ones are held out, validation and test in turn."""
    answers = {row["id"]: row["ground_truth"] for row in _lines(_items_file(_data() / "possible_answer"))}
    splits: dict[str, list[Task]] = {"seed": [], "validation": [], "test": []}
    for index, row in enumerate(_lines(_items_file(_data()))):
        split = "seed" if index % 2 == 0 else ("validation", "test")[index // 2 % 2]
        splits[split].append(_task(row, answers[row["id"]], split))
    return {name: tuple(tasks) for name, tasks in splits.items()}


def _task(row: dict[str, Any], answer: list[list[str]], split: str) -> Task:
    world = {key: row[key] for key in ("id", "initial_config", "involved_classes")}
    world["excluded_function"] = row.get("excluded_function", [])
    names = sorted(row["involved_classes"])
    reference = [[parse_call(text, names) for text in turn] for turn in answer]
    turns = ["\n".join(message["content"] for message in turn) for turn in row["question"]]
    return Task.create("bfcl", split, turns, world, reference, ["+".join(names), *names])


def parse_call(text: str, classes: Sequence[str]) -> ToolCall:
    """A call string of the benchmark's answers: literals only, positions bound to the function's signature."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise CoevolveError(f"expected a call with literal arguments, found {text[:80]!r}")
    name = node.func.id
    owner = next((one for one in classes if name in _documented(one)), None)
    if owner is None:
        raise CoevolveError(f"{name!r} is a function of none of: {', '.join(classes)}")
    parameters = [one for one in inspect.signature(getattr(_class(owner), name)).parameters if one != "self"]
    arguments = dict(zip(parameters, (ast.literal_eval(value) for value in node.args), strict=False))
    arguments.update({str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords})
    return ToolCall(name, json.loads(json.dumps(arguments)))


def _plain(value: Any, seen: dict[int, int]) -> Any:
    """Mutable state as JSON: objects by their attributes, repeated objects by number, clocks left out."""
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

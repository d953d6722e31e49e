"""BFCL's single-turn categories with Python answers: one reply, judged by the package's own AST checker."""

import importlib
import json
import re
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve_environments.bfcl.data import fingerprint, function_schema, items
from coevolve_environments.episode import AdapterSession

CATEGORIES = ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple",
              "live_parallel", "live_parallel_multiple")  # fmt: skip
# items for which the package's checker rejects every answer
QUARANTINE = {
    "live_simple_106-63-0": "the answer lacks a parameter that the function requires",
    "live_simple_112-68-0": "the answer accepts no value for parameters that the function requires",
    "live_multiple_862-181-3": "the answer holds a parameter that the function does not have",
    "live_multiple_964-207-0": "the answer lacks a parameter that the function requires",
}
_MODEL_CONFIG = "bfcl_eval.constants.model_config"  # importing it imports every provider's SDK
_NAME = "coevolve"


class BFCLSingle(Environment):
    """BFCL's single-turn items, split by index within each category, as in ``bfcl``. Quarantined items are in no split."""

    name = "bfcl_single"
    license = "Apache-2.0"
    panels = ("validation", "test")
    quarantine = QUARANTINE

    def __init__(self) -> None:
        self.fingerprint = fingerprint(CATEGORIES)

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _splits()[split]

    def tools(self) -> Sequence[dict[str, Any]]:
        """Every function by name. If items disagree about a function, the first item's schema counts."""
        found: dict[str, dict[str, Any]] = {}
        for tasks in _splits().values():
            for task in tasks:
                for doc in task.world["functions"]:
                    found.setdefault(doc["name"], function_schema(doc))
        return list(found.values())

    def open(self) -> "SingleSession":
        return SingleSession()


class SingleSession(AdapterSession):
    """An episode of one reply. The session records calls and does not execute them. A second reply does not count."""

    environment = "bfcl_single"

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self._calls: list[ToolCall] = []
        self._refused: list[ToolCall] = []
        self._replies = 0
        self._functions = {doc["name"]: doc for doc in task.world["functions"]}
        return [function_schema(doc) for doc in task.world["functions"]]

    def begin_reply(self) -> None:
        self._replies += 1
        self.over = self.over or self._replies > 1

    def act(self, call: ToolCall) -> Observation:
        doc = self._functions.get(call.name)
        unknown = sorted(set(call.arguments) - set(doc["parameters"].get("properties", {}))) if doc else []
        if doc is None or unknown:
            self._refused.append(call)
            return Observation("tool", f"unknown: {', '.join(unknown) or call.name}"[:200], error=True)
        self._calls.append(call)
        return Observation("tool", "noted")

    def judge(self, task: Task) -> Score:
        calls = [*self._calls, *self._refused]
        valid = bool(calls) and _official(task.world["functions"], calls, task.world["answer"], task.tags[0])
        return Score(float(valid), {"called": bool(calls), "answer": valid})

    def digest(self) -> str:
        return "" if self.task is None else content_hash([[call.name, call.arguments] for call in self._calls])


def _official(functions: list[dict[str, Any]], calls: Sequence[ToolCall], answer: Any, category: str) -> bool:
    made = [{call.name: call.arguments} for call in calls]
    try:
        return bool(_checker().ast_checker(functions, made, answer, _python(), category, _NAME)["valid"])
    except (TypeError, AttributeError, KeyError, ValueError):
        return False  # the checker raises an error for arguments of an unexpected shape; BFCL's runner counts them as wrong


@cache
def _checker() -> ModuleType:
    """The package's AST checker. Its table of models gets a single entry, which says that dots in names are kept."""
    known = sys.modules.get(_MODEL_CONFIG)
    table = ModuleType(_MODEL_CONFIG)
    table.MODEL_CONFIG_MAPPING = {_NAME: SimpleNamespace(underscore_to_dot=False)}  # type: ignore[attr-defined]
    sys.modules[_MODEL_CONFIG] = table
    try:
        return importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    finally:
        if known is None:
            del sys.modules[_MODEL_CONFIG]
        else:
            sys.modules[_MODEL_CONFIG] = known


@cache
def _python() -> Any:
    return importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON


@cache
def _splits() -> dict[str, tuple[Task, ...]]:
    splits: dict[str, list[Task]] = {"seed": [], "validation": [], "test": []}
    for category in CATEGORIES:
        for index, (row, answer) in enumerate(items(category)):
            split = "seed" if index % 2 == 0 else ("validation", "test")[index // 2 % 2]
            if row["id"] not in QUARANTINE:
                splits[split].append(_task(row, answer, category, split))
    return {name: tuple(tasks) for name, tasks in splits.items()}


def _task(row: dict[str, Any], answer: list[dict[str, Any]], category: str, split: str) -> Task:
    # some live items have a system message before the user's message
    turn = "\n\n".join(message["content"] for message in row["question"][0])
    world = {"id": row["id"], "functions": row["function"], "answer": answer}
    docs = {doc["name"]: doc for doc in row["function"]}
    calls = [_answered(name, allowed, docs[name]) for one in answer for name, allowed in one.items()]
    return Task.create("bfcl_single", split, [turn], world, [calls], [category])


def _answered(name: str, allowed: dict[str, list[Any]], doc: dict[str, Any]) -> ToolCall:
    """The call with the first accepted value of each parameter, without optional parameters."""
    required = doc["parameters"].get("required", [])
    schemas = doc["parameters"]["properties"]
    arguments = {}
    for key, values in allowed.items():
        if values and ("" not in values or key in required):
            arguments[key] = _value(next((one for one in values if one != ""), values[0]), schemas.get(key, {}))
    return ToolCall(name, json.loads(json.dumps(arguments)))


def _value(accepted: Any, schema: dict[str, Any]) -> Any:
    """A value that ``accepted`` allows. Dictionaries hold a list of accepted values for each key."""
    if isinstance(accepted, dict):
        return {
            key: next(one for one in values if one != "")
            for key, values in accepted.items()
            if any(one != "" for one in values) and "" not in values
        }
    if isinstance(accepted, list) and re.match("dict|object", str(schema.get("items", {}).get("type", ""))):
        return [_value(one, schema["items"]) for one in accepted]
    return accepted

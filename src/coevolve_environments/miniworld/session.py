"""An episode in miniworld, and its score.

The goal of a task is the state after its reference in a fresh world. So a new task needs only a world, an instruction and a
reference. An episode succeeds under four conditions: it makes every change of the reference (goal) and no other (collateral),
it completes the task, and it gives the reference's answer.
"""

import json
from collections import Counter
from functools import lru_cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Session, check_owner
from coevolve_environments.miniworld.apps import (
    COMPLETE,
    SHIFTED_ARGUMENTS,
    SHIFTED_TOOLS,
    TOOLS,
    Refused,
    Tool,
)
from coevolve_environments.miniworld.world import State, build, copied

VARIANTS = ("plain", "shifted")
PARTIAL = 0.49  # highest score of an episode without success: below the threshold of success
_TYPES: dict[str, type] = {"string": str, "integer": int}


def renamed(call: ToolCall, variant: str) -> ToolCall:
    """``call`` with the names that ``variant`` uses."""
    if variant == "plain":
        return call
    arguments = {SHIFTED_ARGUMENTS.get(key, key): value for key, value in call.arguments.items()}
    return ToolCall(SHIFTED_TOOLS.get(call.name, call.name), arguments)


@lru_cache
def catalogue(variant: str) -> dict[str, tuple[Tool, dict[str, str], dict[str, Any]]]:
    """By name: the tool, its argument names in ``variant`` → its original names, and its schema."""
    shifted = variant == "shifted"
    found = {}
    for tool in TOOLS.values():
        name = SHIFTED_TOOLS.get(tool.name, tool.name) if shifted else tool.name
        keys = {(SHIFTED_ARGUMENTS.get(key, key) if shifted else key): key for key in tool.arguments}
        schema = tool.schema()
        function = {**schema["function"], "name": name}
        properties = {new: tool.arguments[old] for new, old in keys.items()}
        required = [new for new, old in keys.items() if old not in tool.optional]
        function["parameters"] = {**function["parameters"], "properties": properties, "required": required}
        found[name] = (tool, keys, {**schema, "function": function})
    return found


@lru_cache
def schemas(variant: str) -> tuple[dict[str, Any], ...]:
    return tuple(schema for _, _, schema in catalogue(variant).values())


class MiniworldSession(Session):
    """A world of seven apps. A step takes a few microseconds."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._state: State = {}
        self._answer: list[str | None] = []
        self._tools: dict[str, tuple[Tool, dict[str, str], dict[str, Any]]] = {}

    def reset(self, task: Task) -> Observation:
        check_owner(task, "miniworld")
        seed, variant = _world_of(task)
        self._task, self._answer = task, []
        self._state = copied(_built(seed))
        self._tools = catalogue(variant)
        return Observation("user", task.turns[0] if task.turns else "", tools=list(schemas(variant)))

    def step(self, call: ToolCall) -> Observation:
        if self._answer:
            return Observation("tool", "the task is completed already", error=True, done=True)
        known = self._tools.get(call.name)
        if known is None:
            return Observation("tool", self._unknown(call.name), error=True)
        tool, keys, _ = known
        wrong = _wrong_arguments(tool, keys, call.arguments)
        if wrong:
            return Observation("tool", wrong, error=True)
        arguments = {keys[key]: value for key, value in call.arguments.items()}
        if tool.name == COMPLETE:
            self._answer.append(arguments.get("answer"))
            return Observation("tool", "ok", done=True)
        try:
            result = tool.function(self._state, **arguments)
        except Refused as refusal:
            return Observation("tool", str(refusal), error=True)
        return Observation("tool", result if isinstance(result, str) else json.dumps(result, separators=(",", ":")))

    def _unknown(self, name: str) -> str:
        new = SHIFTED_TOOLS.get(name)
        if new in self._tools:
            return f"no tool {name}; use {new}"
        return "no such tool"

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def score(self) -> Score:
        if self._task is None:
            raise CoevolveError("score() before reset(): no task was started")
        start = _built(_world_of(self._task)[0])
        goal, goal_answer = _goal(self._task)
        wanted, found = _changes(start, goal), _changes(start, self._state)
        reached = (wanted & found).total()
        checks = {
            "goal": not wanted - found,
            "collateral": not found - wanted,
            "completed": bool(self._answer),
            "answer": bool(self._answer) and _normal(self._answer[0]) == _normal(goal_answer),
        }
        if all(checks.values()):
            return Score(1.0, checks)
        share = (reached + checks["answer"]) / (wanted.total() + 1)
        return Score(PARTIAL * share * (1.0 if checks["collateral"] else 0.5), checks)

    def digest(self) -> str:
        return content_hash([self._state, self._answer])

    def close(self) -> None:
        self._task = None


@lru_cache(maxsize=4096)
def _goal(task: Task) -> tuple[State, str | None]:
    """The state and the answer after the reference in a fresh world. Callers must not change them."""
    session = MiniworldSession()
    session.reset(task)
    for turn in task.reference:
        for call in turn:
            session.step(call)
    return session._state, session._answer[0] if session._answer else None


@lru_cache(maxsize=4096)
def _built(seed: int) -> State:
    return build(seed)


def _world_of(task: Task) -> tuple[int, str]:
    seed, variant = task.world.get("seed"), task.world.get("variant", "plain")
    if not isinstance(seed, int) or isinstance(seed, bool) or variant not in VARIANTS:
        raise CoevolveError(f"task {task.task_id}: world needs an integer `seed` and a `variant` of {VARIANTS}")
    return seed, variant


def _normal(answer: str | None) -> str:
    return (answer or "").strip().casefold()


def _wrong_arguments(tool: Tool, keys: dict[str, str], arguments: dict[str, Any]) -> str:
    """The error in the arguments by the schema; empty if there is none."""
    for key, value in arguments.items():
        if key not in keys:
            new = SHIFTED_ARGUMENTS.get(key)
            return f"no argument {key}; use {new}" if new in keys else "no such argument"
        schema = tool.arguments[keys[key]]
        if type(value) is not _TYPES[schema["type"]]:
            return f"{key} must be of type {schema['type']}"
        if isinstance(value, str) and len(value) > 200:
            return f"{key} is too long"
        if isinstance(value, int) and abs(value) > 10**6:
            return f"{key} is too large"
        if "enum" in schema and value not in schema["enum"]:
            return f"{key} must be one of {' '.join(schema['enum'])}"
    for key, own in keys.items():
        if key not in arguments and own not in tool.optional:
            return f"missing argument {key}"
    return ""


def _changes(start: State, now: State) -> Counter[str]:
    """The changes as a multiset: changed fields of entities, removed entities, and the content of new entities.

    New entities count by content, not by id, so the order of their creation does not matter.
    """
    changes: Counter[str] = Counter()
    for app, before in start.items():
        after = now[app]
        if after == before:
            continue
        for key, entity in before.items():
            current = after.get(key)
            if current is None:
                changes[f"{app} {key} gone"] += 1
            elif current != entity:
                for field, value in current.items():
                    if value != entity[field]:
                        changes[f"{app} {key} {field} {sorted(value) if isinstance(value, list) else value}"] += 1
        for key, entity in after.items():
            if key not in before:
                changes[f"{app} new {sorted(entity.items())}"] += 1
    return changes

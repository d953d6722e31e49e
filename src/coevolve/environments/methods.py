"""An environment from a plain Python class: its public methods are the tools, its attributes the state of the world.

Use it for a simulator in Python. A task succeeds if the attributes end as the reference leaves them. If the reference changes
nothing, the agent must receive all answers that the reference receives. See docs/your-own-environment.md.
"""

import copy
import inspect
import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session, check_owner

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
World = dict[str, Any]
Question = tuple[str, World, list[ToolCall]]


class MethodEnvironment(Environment):
    """An environment whose subclass sets ``name`` and ``simulator``, and implements ``questions``.

    ``simulator(**world)`` makes a world. A method refuses a call by raising ValueError with a message for the agent. Any other
    exception ends the episode, which scores 0. Attributes must be JSON values.
    """

    simulator: Callable[..., Any]
    version = "1"
    panels: tuple[str, ...] = ("validation", "test")

    def __init__(self) -> None:
        self.fingerprint = f"{self.name}-{self.version}"

    @abstractmethod
    def questions(self, split: str) -> Iterable[Question]:
        """The instruction, the world and the calls that solve it, for each task of a split. No two tasks may be equal."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        return asked(self.name, split, self.questions(split))

    def tools(self) -> Sequence[dict[str, Any]]:
        return _tools(type(self).simulator)

    def open(self) -> "MethodSession":
        return MethodSession(self.name, type(self).simulator)


def asked(name: str, split: str, questions: Iterable[Question]) -> list[Task]:
    """The tasks of the environment ``name`` for these ``questions``."""
    return [
        Task.create(name, split, [words], world, [calls], [calls[0].name if calls else "nothing"])
        for words, world, calls in questions
    ]


def met(start: str, end: str, answers: Collection[str], now: str, heard: Collection[str]) -> dict[str, bool]:
    """The checks of an episode. All states are hashes: ``start`` and ``end`` are those of the reference.

    If the reference changes the state, ``now`` must equal ``end``. If not, ``heard`` must also include its ``answers``.
    """
    checks = {"state": now == end}
    if start == end:
        checks["heard"] = bool(answers) and set(answers) <= set(heard)
    return checks


class MethodSession(Session):
    """An episode with an instance of the simulator."""

    def __init__(self, name: str, simulator: Callable[..., Any]) -> None:
        self._name = name
        self._simulator = simulator
        self._schemas = _tools(simulator)
        self._parameters = {one["function"]["name"]: one["function"]["parameters"] for one in self._schemas}
        self._task: Task | None = None
        self._world: Any = None
        self._heard: list[str] = []

    def reset(self, task: Task) -> Observation:
        check_owner(task, self._name)
        self._task, self._heard = task, []
        self._world = self._simulator(**copy.deepcopy(task.world))
        return Observation("user", task.turns[0] if task.turns else "", tools=self._schemas)

    def step(self, call: ToolCall) -> Observation:
        wrong = _wrong(self._parameters.get(call.name), call)
        if wrong:
            return Observation("tool", wrong, error=True)
        before = copy.deepcopy(vars(self._world))
        try:
            result = getattr(self._world, call.name)(**call.arguments)
        except ValueError as error:
            vars(self._world).clear()  # a refused call may also have added attributes
            vars(self._world).update(before)
            return Observation("tool", str(error), error=True)
        content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
        self._heard.append(content)
        return Observation("tool", content)

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def score(self) -> Score:
        if self._task is None:
            raise CoevolveError("score() before reset(): no task was started")
        calls = [[call.name, call.arguments] for call in self._task.calls]
        start, end, outputs = _truth(self._simulator, json.dumps([self._task.world, calls]))
        checks = met(start, end, outputs, self.digest(), self._heard)
        return Score(float(all(checks.values())), checks)

    def digest(self) -> str:
        return content_hash(vars(self._world)) if self._task else ""

    def close(self) -> None:
        self._task = self._world = None


@lru_cache(maxsize=4096)
def _truth(simulator: Callable[..., Any], solution: str) -> tuple[str, str, list[str]]:
    """The state before and after the reference, and its answers. ``solution`` is JSON of a world and calls."""
    world, calls = json.loads(solution)
    session = MethodSession("", simulator)
    session.reset(Task.create("", "", [], world, []))
    start = session.digest()
    turns = [session.step(ToolCall(name, arguments)) for name, arguments in calls]
    return start, session.digest(), [turn.content for turn in turns if not turn.error]


@cache
def _tools(simulator: Callable[..., Any]) -> list[dict[str, Any]]:
    methods = inspect.getmembers(simulator, inspect.isfunction)
    return [_schema(method) for name, method in methods if not name.startswith("_")]


def _schema(method: Callable[..., Any]) -> dict[str, Any]:
    """An OpenAI function schema of a method, from its type hints and the first paragraph of its docstring."""
    hints = get_type_hints(method)
    parameters = [one for one in inspect.signature(method).parameters.values() if one.name != "self"]
    properties = {one.name: _kind(hints.get(one.name)) for one in parameters}
    if unknown := [name for name, kind in properties.items() if kind is None]:
        raise CoevolveError(
            f"{method.__qualname__}: {unknown[0]} needs a type hint: str, int, float, bool, a TypedDict of such, or a list"
        )
    return {
        "type": "function",
        "function": {
            "name": method.__name__,
            "description": (inspect.getdoc(method) or method.__name__).split("\n\n")[0],
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": [one.name for one in parameters if one.default is inspect.Parameter.empty],
            },
        },
    }


def _kind(hint: Any) -> dict[str, Any] | None:
    """The JSON schema of a type hint; None if the hint is not supported."""
    if hint in JSON_TYPES:
        return {"type": JSON_TYPES[hint]}
    if get_origin(hint) is list:
        [inner] = get_args(hint)
        items = _kind(inner)
        return items and {"type": "array", "items": items}
    if is_typeddict(hint):
        properties = {name: _kind(one) for name, one in get_type_hints(hint).items()}
        if None not in properties.values():
            return {"type": "object", "properties": properties, "required": _required(hint)}
    return None


def _required(record: Any) -> list[str]:
    """The keys that a TypedDict requires, in its order."""
    # __required_keys__ lacks the marks of annotations that are text, as in modules with postponed annotations
    marks = {name: get_origin(one) for name, one in get_type_hints(record, include_extras=True).items()}
    return [
        name
        for name, mark in marks.items()
        if mark is Required or (mark is not NotRequired and name in record.__required_keys__)
    ]


def _wrong(parameters: dict[str, Any] | None, call: ToolCall) -> str:
    """The error in a call by its schema; empty if there is none."""
    if parameters is None:
        return f"there is no tool {call.name[:60]!r}"
    wrong = _misfit(call.arguments, parameters, "")
    return wrong and f"{call.name}: {wrong}"


def _misfit(value: Any, schema: dict[str, Any], place: str) -> str:
    kind = schema["type"]
    if kind == "object" and isinstance(value, dict):
        properties = schema["properties"]
        for key in schema["required"]:
            if key not in value:
                return f"{place}{key} is missing"
        for key, one in value.items():
            if key not in properties:
                return f"there is no argument {place + key[:60]!r}"
            if wrong := _misfit(one, properties[key], f"{place}{key}."):
                return wrong
        return ""
    if kind == "array" and isinstance(value, list):
        members = (_misfit(one, schema["items"], f"{place}{number}.") for number, one in enumerate(value))
        return next(filter(None, members), "")
    found = JSON_TYPES.get(type(value))
    fits = found == kind or (kind == "number" and found == "integer")
    return "" if fits else f"{place[:-1]} must be of type {kind}"

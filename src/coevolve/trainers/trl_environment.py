"""An environment of coevolve as a class for TRL's `GRPOTrainer(environment_factory=...)`.

TRL shows the model each public method as a tool, calls `reset` with a row of the dataset, and asks `get_reward` in the end.
"""

import inspect
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.environments.wire import SAY_TOOL
from coevolve.trainers.replay import Replay, Request, call, checked_tasks, say, shared_tools, told

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
PLAIN = frozenset({"type", "description", "default", "enum", "title"})  # the words of a schema that a type hint can say
RESERVED = ("reset", "get_reward", "train_dataset")


class Episodes:
    """Rollouts of TRL, one after another. ``trl_environment`` makes a subclass with the tasks and a method for each tool."""

    _environment: ClassVar[Environment]
    _tasks: ClassVar[dict[str, Task]]
    _generations: ClassVar[int]
    _started: ClassVar[int]

    def __init__(self) -> None:
        self._episode: Replay | None = None
        self._failed = False

    def reset(self, task_id: str | None = None, **row: Any) -> str | None:
        """Start a task. A row of ``train_dataset`` names it and has its prompt. Without rows, returns the prompt of the next task."""
        kind = type(self)
        if task_id is not None and task_id not in self._tasks:
            raise CoevolveError(f"task_id {task_id!r} is none of the {len(self._tasks)} tasks of {kind.__name__}")
        task = self._next() if task_id is None else self._tasks[task_id]
        if self._episode is not None:
            self._episode.close()
        self._failed = False
        self._episode = Replay(self._environment, task)
        return self._episode.turn.content if task_id is None else None

    def _next(self) -> Task:
        """The next task, once for each rollout of a group: TRL resets the rollouts of a group one after another."""
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise CoevolveError(
                "several processes cannot share a group without a dataset; pass train_dataset=CLASS.train_dataset()"
            )
        kind = type(self)
        tasks = list(self._tasks.values())
        task = tasks[kind._started // self._generations % len(tasks)]
        kind._started += 1
        return task

    def get_reward(self) -> float | None:
        """The environment's score. None if the environment failed without the agent's fault: TRL then ignores the rollout."""
        return None if self._failed or self._episode is None else self._episode.score().reward

    def _answer(self, request: Request) -> str:
        if self._episode is None:
            raise CoevolveError("no task was started; call reset() first")
        try:
            return told(self._episode.answer(request))
        except Exception:
            self._failed = True
            raise

    @classmethod
    def train_dataset(cls) -> Any:
        """The tasks as a `datasets.Dataset` with the columns `prompt` and `task_id`."""
        from datasets import Dataset

        rows = [
            {"prompt": [{"role": "user", "content": task.turns[0]}], "task_id": name}
            for name, task in cls._tasks.items()
        ]
        return Dataset.from_list(rows)


def trl_environment(name: str, tasks: str | Path | None = None, num_generations: int = 8) -> type[Episodes]:
    """A class for `GRPOTrainer(environment_factory=...)` that plays ``tasks`` in the environment ``name``.

    ``name`` is one of `coevolve env list`, or FILE.py:CLASS. ``tasks`` is a file such as `grown/tasks.jsonl`, whose references
    must succeed; by default the training tasks of the environment. The methods are the tools that the tasks offer, and `say`, which
    speaks to the user. The reward is the environment's score.

    Pass the class's ``train_dataset()`` as `train_dataset`. Without it, set `max_steps`: then the class hands out the tasks in
    order, each ``num_generations`` times, which must be that of `GRPOConfig`. This works in one process.
    """
    environment = make(name)
    chosen = (
        checked_tasks(environment, environment.name, Path(tasks)) if tasks is not None else environment.tasks("seed")
    )
    members: dict[str, Any] = {
        "__doc__": f"{len(chosen)} tasks of {name} for TRL.",
        "_environment": environment,
        "_tasks": {task.task_id: task for task in chosen},
        "_generations": num_generations,
        "_started": 0,
    }
    for tool in (SAY_TOOL, *shared_tools(environment, chosen)):
        if tool["name"].startswith("_") or tool["name"] in RESERVED:
            raise CoevolveError(f"{name}: TRL shows no model a tool called {tool['name']!r}; rename it")
        members[tool["name"]] = _method(tool)
    return type(environment.name, (Episodes,), members)


def _method(tool: Mapping[str, Any]) -> Callable[..., str]:
    """The tool as a method, from which TRL makes the tool's schema again."""
    name = tool["name"]

    def method(self: Episodes, **arguments: Any) -> str:
        return self._answer(say(str(arguments.get("text", ""))) if tool is SAY_TOOL else call(name, arguments))

    schema = tool["parameters"]
    parts, required = schema.get("properties", {}), schema.get("required", [])
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("self", kind)]
    words = []
    for key in sorted(parts, key=lambda key: key not in required):  # Python wants those without a default first
        default = inspect.Parameter.empty if key in required else None
        try:
            parameters.append(inspect.Parameter(key, kind, default=default, annotation=_hint(parts[key])))
        except ValueError:
            raise CoevolveError(f"{name}: TRL cannot show an argument {key!r}, which is no name in Python") from None
        words.append(f"    {key}: {_described(key, parts[key])}")
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    method.__annotations__ = {one.name: one.annotation for one in parameters[1:]}
    method.__name__ = method.__qualname__ = name
    method.__doc__ = "\n".join([" ".join(tool["description"].split()), *(["", "Args:", *words] if words else [])])
    return method


def _hint(schema: Mapping[str, Any]) -> Any:
    if isinstance(schema.get("enum"), list) and all(isinstance(one, str | int) for one in schema["enum"]):
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    items = schema.get("items")
    if kind == "array" and isinstance(items, dict) and items.get("type") in TYPES:
        return list[_hint(items)]  # type: ignore[misc]
    return TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _described(key: str, schema: Mapping[str, Any]) -> str:
    """The description of an argument, with the parts of its schema that a type hint cannot say."""
    words = " ".join(str(schema.get("description", key)).split())
    plain = PLAIN | ({"items"} if schema.get("items", {}).keys() <= {"type"} else frozenset())
    more = {part: value for part, value in schema.items() if part not in plain}
    return f"{words} (JSON Schema: {json.dumps(more, ensure_ascii=False)})" if more else words

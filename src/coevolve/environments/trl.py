"""coevolve's environments for TRL's argument `environment_factory` (experimental in TRL), to train without coevolve's loop.

TRL expects a class with `reset`, `get_reward`, and a method for each tool, with a signature and a docstring. Its loop ends at the
first message without a call and has no later user turns. So environments with several user turns get another tool,
``next_request``. TRL's loop also steps one environment after another; `make bench` measures the cost.
"""

import inspect
import keyword
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment, blameless
from coevolve.environments.registry import make
from coevolve.environments.replay import BROKEN, told

PYTHON_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
PROBED = 64  # tasks whose offered tools become methods
NEXT = "next_request"

Tasks = str | Path | Iterable[Task]


def dataset_rows(
    environment: str | Environment, split: str = "seed", tasks: Tasks | None = None
) -> list[dict[str, Any]]:
    """Rows of a dataset for ``GRPOTrainer``: the prompt, and the ``task_id`` for ``reset``.

    ``tasks`` is a JSONL file such as accepted.jsonl, or tasks in memory; by default, the tasks of ``split``.
    """
    return [
        {"prompt": [{"role": "user", "content": task.turns[0]}], "task_id": task.task_id}
        for task in _chosen(_world(environment), split, tasks)
    ]


def environment_factory(environment: str | Environment, split: str = "seed", tasks: Tasks | None = None) -> type:
    """A class for ``GRPOTrainer(environment_factory=...)``; its instances play the same tasks as ``dataset_rows`` has.

    The reward is the environment's. A tool whose name is not a Python identifier cannot be a method: this is a CoevolveError.
    """
    world = _world(environment)
    chosen = {task.task_id: task for task in _chosen(world, split, tasks)}
    session = world.open()
    schemas: dict[str, dict[str, Any]] = {}
    for task in list(chosen.values())[:PROBED]:
        for schema in session.reset(task).tools or []:
            schemas[schema["function"]["name"]] = schema["function"]
    session.close()
    wrong = [name for name in schemas if not name.isidentifier() or keyword.iskeyword(name)]
    if wrong:
        raise CoevolveError(
            f"{world.name}: {wrong[0]!r} is not a Python name, so it cannot be a tool of TRL's environments"
        )
    members: dict[str, Any] = {name: _method(function) for name, function in schemas.items()}
    if any(len(task.turns) > 1 for task in chosen.values()):
        members[NEXT] = _next_request
    members |= {"__init__": _init(world, chosen), "reset": _reset, "get_reward": _get_reward}
    return type(f"{world.name.title().replace('_', '')}Tools", (), members)


def _world(environment: str | Environment) -> Environment:
    return make(environment) if isinstance(environment, str) else environment


def _chosen(world: Environment, split: str, tasks: Tasks | None) -> Sequence[Task]:
    if tasks is None:
        return world.tasks(split)
    return read_tasks(Path(tasks), world.name, least=1) if isinstance(tasks, str | Path) else list(tasks)


def _init(world: Environment, tasks: dict[str, Task]) -> Callable[[Any], None]:
    def init(self: Any) -> None:
        self._world, self._session = world, world.open()
        self._broken = False
        self._tasks, self._task = tasks, None

    return init


def _reset(self: Any, task_id: str, **row: Any) -> None:
    if self._broken:
        self._session = self._world.open()
    self._broken, self._task = False, self._tasks[task_id]
    self._session.reset(self._task)


def _asked(self: Any, ask: Callable[..., Any], *what: Any) -> Any:
    """The session's answer; None if the agent's call broke the session, after which the episode scores 0."""
    try:
        return None if self._broken else ask(*what)
    except Exception as error:
        self._broken = True
        with suppress(Exception):
            self._session.close()  # it may occupy the place of the session that ``blameless`` opens
        if blameless(error, self._world, self._task):
            raise
        return None


def _get_reward(self: Any) -> float:
    score = _asked(self, self._session.score)
    return float(score.reward) if score else 0.0


def _next_request(self: Any) -> str:
    """Hear the user's next request, when the one before is done.

    Returns:
        The request, or that there is none.
    """
    turn = _asked(self, self._session.say, "")
    return "there is nothing more to do" if turn is None or turn.done else str(turn.content)


def _method(function: dict[str, Any]) -> Callable[..., str]:
    def method(self: Any, **arguments: Any) -> str:
        given = {key: value for key, value in arguments.items() if value is not None}
        if wrong := misfit(function["name"], given):
            return f"error: {wrong}"
        turn = _asked(self, self._session.step, ToolCall(function["name"], given))
        return told(BROKEN if turn is None else turn)

    properties: dict[str, Any] = function["parameters"].get("properties", {})
    required: Sequence[str] = function["parameters"].get("required", [])
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [
        inspect.Parameter(
            key,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if key in required else None,
            annotation=PYTHON_TYPES.get(schema.get("type", "string"), str),
        )
        for key, schema in sorted(properties.items(), key=lambda item: item[0] not in required)
    ]
    lines = [
        f"    {key}: {' '.join(str(schema.get('description', key)).split())}" for key, schema in properties.items()
    ]
    method.__name__ = function["name"]
    method.__doc__ = "\n".join([function["description"].strip(), "", *(["Args:", *lines] if lines else [])])
    method.__signature__ = inspect.Signature([own, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    method.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": str}
    return method

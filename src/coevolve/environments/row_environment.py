"""An environment from the class that a trainer plays (TRL's `environment_factory`), unchanged.

`reset(**row)` starts the world of a row of the data set. Public methods are the tools, with the schemas that TRL shows the
model. The row's own task is scored by `get_reward` (or `reward`), if the class has one. Any other task in that world, and all
tasks of a class without a reward, succeed by the rule of ``questions.met``: the state is what `state()` returns, or else the
attributes. The class holds no tasks: FILE.py:CLASS@TASKS names a file of tasks, or the rows of the data set.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.hashing import file_hash
from coevolve.core.io import read_jsonl_objects, read_tasks
from coevolve.core.plugins import place_of
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import MACHINE, Environment, check_owner
from coevolve.environments.methods import MethodSession
from coevolve.environments.signatures import NO_TOOLS
from coevolve.environments.sources import sources
from coevolve.environments.world_state import jsonable, state_of

Factory = Callable[[], Any]
REWARDS = ("get_reward", "reward")


def request_of(row: Mapping[str, Any]) -> str:
    """The text of the last message of a row's `prompt`; empty without one."""
    prompt = row.get("prompt") or ""
    content = prompt[-1].get("content") or "" if isinstance(prompt, list) else prompt
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return str(content)


def read_dataset(folder: Path) -> Any:
    """The `datasets.Dataset` that was saved in ``folder`` (of several splits, `train`)."""
    from datasets import DatasetDict, load_from_disk

    try:
        loaded: Any = load_from_disk(str(folder))
    except (FileNotFoundError, ValueError) as error:
        raise CoevolveError(f"{folder}: not a folder of `datasets` ({first_line(error)})") from None
    return loaded["train"] if isinstance(loaded, DatasetDict) else loaded


def read_rows(source: Path) -> list[dict[str, Any]]:
    """The rows of a data set: JSONL, Parquet, or a folder that `datasets` saved (of several splits, `train`)."""
    if source.is_dir():
        rows = list(read_dataset(source))
    elif source.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            rows = pq.read_table(source).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise CoevolveError(f"{source}: not a Parquet file ({first_line(error)})") from None
    else:
        rows = [row for _, row in read_jsonl_objects(source)]
    if not rows:
        raise CoevolveError(f"{source}: no rows; expected the data set that the rollouts are about")
    return [jsonable(row) for row in rows]


@cache
def _tools(kind: type) -> dict[str, dict[str, Any]]:
    """The tools of a class by name, as TRL lists them and shows them to the model."""
    from transformers.utils import get_json_schema

    schemas = {}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_") or name in NO_TOOLS:
            continue
        try:
            schemas[name] = get_json_schema(method)
        except Exception as error:  # of transformers' parser, or of a hint that it does not know
            raise CoevolveError(
                f"{kind.__name__}.{name} is no tool that TRL can show: {first_line(error)}; write a docstring in Google's style "
                f"with type hints, or rename it to _{name}"
            ) from None
    if not schemas:
        raise CoevolveError(f"{kind.__name__} has no public method with a docstring, so an agent could call nothing")
    return schemas


def _reward_of(kind: type) -> str | None:
    """The name of the method that gives the reward."""
    return next((name for name in REWARDS if callable(getattr(kind, name, None))), None)


class RowEnvironment(Environment):
    """The environment that ``factory`` makes the instances of. The name is that of their class, in small letters.

    ``known`` is a file of tasks, or the rows of a data set, which have no references.
    """

    panels: tuple[str, ...] = ()

    def __init__(self, factory: Factory, known: str = "") -> None:
        self._factory, self.known = factory, known
        self.kind: type = type(factory())
        self.name = self.kind.__name__.lower()
        self.fingerprint = f"{self.name}-{file_hash(Path(known)) if Path(known).is_file() else 'class'}"
        self.tools()  # raises an error if an agent could not call one of them

    @property
    def rewards(self) -> bool:
        """Whether the class has a reward."""
        return _reward_of(self.kind) is not None

    def load_tasks(self, split: str) -> Sequence[Task]:
        if not self.known:
            raise CoevolveError(
                f"a class with reset(**row) holds no tasks; name them, as in FILE.py:{self.kind.__name__}@TASKS.jsonl: the "
                "data set, or known.jsonl and tasks.jsonl of `coevolve grow`"
            )
        return self.tasks_in(Path(self.known))

    def tasks_in(self, file: Path) -> list[Task]:
        """The tasks of ``file``, or those of its rows, without references."""
        if file.suffix == ".jsonl":
            first = next((row for _, row in read_jsonl_objects(file)), {})
            if {"world", "reference"} <= set(first):
                return read_tasks(file, self.name)
        return list({task.task_id: task for task in map(self.task_of, read_rows(file))}.values())

    def tools(self) -> Sequence[dict[str, Any]]:
        return list(_tools(self.kind).values())

    def open(self) -> "RowSession":
        return RowSession(self.name, self._factory)

    def sources(self) -> dict[str, str]:
        return super().sources() | sources(one.__module__ for one in self.kind.__mro__[:-1])

    def task_of(self, row: Mapping[str, Any], calls: Sequence[ToolCall] = ()) -> Task:
        """The task of a ``row``, with the ``calls`` that solve it."""
        return Task.create(self.name, "seed", [request_of(row)], row, [calls], [calls[0].name if calls else "nothing"])


class RowSession(MethodSession):
    """An episode with an instance that ``factory`` makes. As in TRL, a refused call undoes nothing."""

    @property
    def _schemas(self) -> Mapping[str, dict[str, Any]]:
        kind: type = type(self._world)
        return _tools(kind)

    def reset(self, task: Task) -> Observation:
        check_owner(task, self._name)
        self.close()
        world = self._simulator()
        try:
            said = self._result(world.reset, copy.deepcopy(task.world))
        except Exception as error:
            raise CoevolveError(
                f"{type(world).__name__}.reset fails on a row with {', '.join(task.world)}: {type(error).__name__}: "
                f"{first_line(error)}{place_of(error)}"
            ) from None
        self._begin(task, world)
        asked = task.turns[0] if task.turns else ""
        more = "" if said is None else _text(said)  # TRL appends it to the last message
        return Observation("user", f"{asked}{more}", tools=list(self._schemas.values()))

    def step(self, call: ToolCall) -> Observation:
        self._begun()
        try:
            if call.name not in self._schemas:
                raise ValueError(f"Tool {call.name} not found.")
            content = _text(self._result(getattr(self._world, call.name), copy.deepcopy(call.arguments)))
        except (CoevolveError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in MACHINE:
                raise
            return Observation("tool", str({"error": str(error)}), error=True)
        self._heard.append(content)
        return Observation("tool", content)

    def reward(self) -> float | None:
        """The reward of the class; None if it has none."""
        name = _reward_of(type(self._world))
        return None if name is None else float(self._result(getattr(self._world, name), {}))

    def state(self) -> dict[str, Any]:
        """The state as JSON, by attribute."""
        return state_of(self._world)

    def score(self) -> Score:
        task = self._begun()
        own = task.provenance is None and task.turns == [request_of(task.world)]
        if not own or (reward := self.reward()) is None:
            return super().score()
        return Score(min(max(reward, 0.0), 1.0), {"reward": reward >= 1.0})


def _text(said: Any) -> str:
    """What a model reads of the result of a method: as TRL writes it, but the text alone of a list of parts."""
    if isinstance(said, list) and said and all(isinstance(part, dict) and "type" in part for part in said):
        return "".join(str(part.get("text") or "") for part in said)
    return str(said)

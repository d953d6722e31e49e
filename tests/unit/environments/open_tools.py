"""An environment of any tools, which accepts every call of them: what it hears shows what an explorer draws."""

from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session


class OpenTools(Environment):
    """``schemas``: the parameters of each tool. ``known``: calls that solve the training tasks."""

    name = "open_tools"
    fingerprint = "open-tools-1"
    panels = ()

    def __init__(self, schemas: Mapping[str, Any], known: Sequence[ToolCall] = ()) -> None:
        self._schemas, self._known = schemas, known

    def load_tasks(self, split: str) -> Sequence[Task]:
        calls = self._known or [ToolCall("")]
        return [Task.create(self.name, split, [f"task {n}"], {"n": n}, [[call]]) for n, call in enumerate(calls)]

    def tools(self) -> Sequence[dict[str, Any]]:
        functions = [{"name": name, "description": name, "parameters": one} for name, one in self._schemas.items()]
        return [{"type": "function", "function": function} for function in functions]

    def open(self) -> "OpenSession":
        return OpenSession(self)


class OpenSession(Session):
    def __init__(self, environment: OpenTools) -> None:
        self._tools = list(environment.tools())
        self._calls: list[Any] = []

    def reset(self, task: Task) -> Observation:
        self._calls = []
        return Observation("user", "", tools=self._tools)

    def step(self, call: ToolCall) -> Observation:
        if call.name not in {tool["function"]["name"] for tool in self._tools}:
            return Observation("tool", "unknown", error=True)
        self._calls.append([call.name, call.arguments])
        return Observation("tool", "done")

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def score(self) -> Score:
        return Score(0.0)

    def digest(self) -> str:
        return content_hash(self._calls)

    def close(self) -> None:
        pass

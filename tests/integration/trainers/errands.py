"""An environment with two user turns. The second turn offers another tool."""

from collections.abc import Sequence
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session
from coevolve_environments.tool_list import function

NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [[function("note", "Take a note", NOTE)], [function("erase", "Erase a note", NOTE)]]


class Errands(Environment):
    name = "errands"
    fingerprint = "errands-1"
    panels = ("validation",)

    def load_tasks(self, split: str) -> Sequence[Task]:
        reference = [[ToolCall("note", {"text": "milk"})], [ToolCall("erase", {"text": "milk"})]]
        return [Task.create("errands", split, ["note milk", f"erase it, for {split}"], {}, reference)]

    def tools(self) -> Sequence[dict[str, Any]]:
        return [*TOOLS[0], *TOOLS[1]]

    def open(self) -> "ErrandsSession":
        return ErrandsSession()


class ErrandsSession(Session):
    def __init__(self) -> None:
        self._turns: list[str] = []
        self._turn = 0
        self._done: list[str] = []

    def reset(self, task: Task) -> Observation:
        self._turns, self._turn, self._done = task.turns, 0, []
        return Observation("user", task.turns[0], tools=TOOLS[0])

    def step(self, call: ToolCall) -> Observation:
        if call.name != TOOLS[self._turn][0]["function"]["name"]:
            return Observation("tool", f"no tool {call.name}", error=True)
        self._done.append(call.name)
        return Observation("tool", "ok")

    def say(self, text: str) -> Observation:
        if self._turn:
            return Observation("user", "", done=True)
        self._turn = 1
        return Observation("user", self._turns[1], tools=TOOLS[1])

    def score(self) -> Score:
        return Score(self._done.count("note") * 0.5 + self._done.count("erase") * 0.5 if len(self._done) <= 2 else 0.0)

    def digest(self) -> str:
        return content_hash(self._done)

    def close(self) -> None:
        self._done = []

"""The parts that adapters share: schemas of tools, and episodes with one instruction."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Session, check_owner

PARTIAL = 0.49  # highest score of an episode without success
LISTED = Sequence[dict[str, Any]]


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    """The schema of a tool whose arguments are texts, each with its description."""
    fields = {key: {"type": "string", "description": text} for key, text in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


class AdapterSession(Session):
    """Calls until the agent speaks, or until a call ends the episode."""

    environment: str  # name
    task: Task | None = None  # None before ``reset`` and after ``close``
    over = False

    @abstractmethod
    def begin(self, task: Task) -> LISTED:
        """Start the world of ``task``, and return its tools."""

    @abstractmethod
    def act(self, call: ToolCall) -> Observation:
        """Make a call in the world."""

    @abstractmethod
    def judge(self, task: Task) -> Score:
        """The score of the episode so far, in the world of ``task``."""

    def reset(self, task: Task) -> Observation:
        check_owner(task, self.environment)
        self.close()
        tools = list(self.begin(task))
        self.task, self.over = task, False
        return Observation("user", task.turns[0] if task.turns else "", tools=tools)

    def step(self, call: ToolCall) -> Observation:
        if self.task is None or self.over:
            return Observation("tool", "the episode is over", error=True, done=True)
        heard = self.act(call)
        self.over = heard.done
        return heard

    def say(self, text: str) -> Observation:
        self.over = True
        return Observation("user", "", done=True)

    def score(self) -> Score:
        if self.task is None:
            raise CoevolveError("score() before reset(): no task was started")
        return self.judge(self.task)

    def close(self) -> None:
        self.task = None

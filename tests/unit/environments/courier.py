"""A desk of a courier, whose sessions say their own words, keep the objects of a call and change them, and hear the last message."""

from collections.abc import Sequence
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "send",
            "description": "Send boxes",
            "parameters": {
                "type": "object",
                "properties": {
                    "boxes": {"type": "array", "items": {"type": "integer"}},
                    "count": {"type": "integer"},
                },
                "required": ["boxes", "count"],
            },
        },
    }
]


class Courier(Environment):
    """A world has the turns to ``say``, and may be ``strict``: then the reference fails after a message of the agent."""

    name = "courier"
    fingerprint = "courier-1"
    panels = ("validation",)

    def load_tasks(self, split: str) -> Sequence[Task]:
        orders = [(f"send 2 boxes, numbers {number} and 90", [number, 90]) for number in range(10, 14)]
        return [task([words], boxes, strict=boxes[0] == 13) for words, boxes in orders]

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "CourierSession":
        return CourierSession()


class CourierSession(Session):
    def reset(self, task: Task) -> Observation:
        self._task, self._turn, self._sent, self._messages = task, 0, list[Any](), 0
        return Observation("user", self._turns[0], tools=TOOLS)

    @property
    def _turns(self) -> list[str]:
        return list(self._task.world.get("say") or self._task.turns)

    def step(self, call: ToolCall) -> Observation:
        boxes, count = call.arguments.get("boxes"), call.arguments.get("count")
        fits = isinstance(boxes, list) and all(type(one) is int for one in [*boxes, count])
        if call.name != "send" or not fits or not isinstance(boxes, list):
            return Observation("tool", "expected send(boxes, count)", error=True)
        self._sent.append([sorted(boxes), count])
        boxes.append(len(self._sent))
        call.arguments["count"] = -1
        return Observation("tool", "sent")

    def say(self, text: str) -> Observation:
        self._turn, self._messages = self._turn + 1, self._messages + 1
        if self._turn >= len(self._turns):
            return Observation("user", "", done=True)
        return Observation("user", self._turns[self._turn])

    def score(self) -> Score:
        wanted = [[sorted(call.arguments["boxes"]), call.arguments["count"]] for call in self._task.calls]
        checks = {"sent": self._sent == wanted, "silent": not (self._task.world.get("strict") and self._messages)}
        return Score(float(all(checks.values())), checks)

    def digest(self) -> str:
        return content_hash(self._sent)

    def close(self) -> None:
        pass


def task(turns: Sequence[str], boxes: Sequence[int], **world: Any) -> Task:
    calls = [[ToolCall("send", {"boxes": list(boxes), "count": len(boxes)})], *([] for _ in turns[1:])]
    return Task.create("courier", "seed", turns, world, calls)

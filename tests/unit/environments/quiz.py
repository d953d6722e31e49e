"""An environment that constructs its tasks: sums of as many numbers as the goal states."""

from collections.abc import Sequence
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.seeding import rng_for
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session

TERMS = {"sum_2": 2, "sum_4": 4, "sum_8": 8}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "answer",
            "description": "Give the sum",
            "parameters": {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]},
        },
    }
]


def numbers(world: dict[str, Any]) -> list[int]:
    rng = rng_for("quiz", world["goal"], world["seed"])
    return [rng.randint(100, 999) for _ in range(TERMS[world["goal"]])]


class Quiz(Environment):
    name = "quiz"
    fingerprint = "quiz-1"
    panels = ("validation",)
    goals = tuple(TERMS)

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [self.construct(goal, (10**6 if split == "seed" else 10**7) + n) for goal in TERMS for n in range(4)]

    def construct(self, goal: str, seed: int) -> Task:
        world = {"goal": goal, "seed": seed}
        found = numbers(world)
        call = ToolCall("answer", {"value": str(sum(found))})
        return Task.create("quiz", "made", ["add " + " + ".join(map(str, found))], world, [[call]], [goal])

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "QuizSession":
        return QuizSession()


class HeldOut(Quiz):
    """A quiz whose panel asks for longer sums than its training tasks."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [task for task in super().load_tasks(split) if (task.family == "sum_8") == (split != "seed")]


class QuizSession(Session):
    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._given: str | None = None

    def reset(self, task: Task) -> Observation:
        self._numbers, self._given = numbers(task.world), None
        return Observation("user", "add " + " + ".join(map(str, self._numbers)), tools=TOOLS)

    def step(self, call: ToolCall) -> Observation:
        value = call.arguments.get("value")
        if call.name != "answer" or set(call.arguments) != {"value"} or not isinstance(value, str) or self._given:
            return Observation("tool", "expected answer(value) once", error=True)
        self._given = value
        return Observation("tool", "taken", done=True)

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def score(self) -> Score:
        right = self._given == str(sum(self._numbers))
        return Score(float(right), {"right": right})

    def digest(self) -> str:
        return content_hash([self._numbers, self._given])

    def close(self) -> None:
        self._given = None

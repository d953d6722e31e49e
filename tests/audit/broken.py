"""Environments with a fault each, as they are found in the wild; all are quizzes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from coevolve.core.task import Observation, Score, Task, ToolCall
from tests.environments.quiz import TOOLS, Quiz, QuizSession, numbers


class Lavish(Quiz):
    """Gives all for nothing."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(1.0)


class Stingy(Quiz):
    """Gives the right answer half."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(0.5 * super().score().reward, {"right": False})


class Gullible(Quiz):
    """Takes any answer that holds a number of the question."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(float(any(str(one) in (self._given or "") for one in [*self._numbers, sum(self._numbers)])))


class Boundless(Quiz):
    """Gives more than 1."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(3.0 * super().score().reward)


class Moody(Quiz):
    """Answers differently every time."""

    said = 0

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            Moody.said += 1
            return replace(super().step(call), content=f"taken {Moody.said}")


class Scattered(Quiz):
    """Answers by the order of a set."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            return replace(super().step(call), content=" ".join({f"word{n}" for n in range(50)}))


class Shared(Quiz):
    """All sessions have one answer."""

    class Play(QuizSession):
        answers: ClassVar[list[str]] = []

        def reset(self, task: Task) -> Observation:
            self.answers.clear()
            return super().reset(task)

        def step(self, call: ToolCall) -> Observation:
            heard = super().step(call)
            self.answers.append(str(self._given))
            return heard

        def digest(self) -> str:
            return str(self.answers)


class Talkative(Quiz):
    """Tells the sum to who is wrong, and lets him try again."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            right = str(sum(self._numbers))
            if call.name == "answer" and call.arguments.get("value") not in (None, right):
                return Observation("tool", f"wrong, it is {right}", error=True)
            return super().step(call)


class Parrot(Quiz):
    """Says what it refuses, which tells nothing."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            if call.name == "answer" and call.arguments.get("value") not in (None, str(sum(self._numbers))):
                return Observation("tool", f"{call.arguments['value']} is wrong", error=True)
            return super().step(call)


class Obliging(Quiz):
    """Takes calls of any tool."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            return replace(super().step(call), error=False)


class Leaky(Quiz):
    """Tests what it trains on."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [replace(task, split=split, task_id=f"{split}{n}") for n, task in enumerate(super().load_tasks("seed"))]


class Monotonous(Quiz):
    """Asks one thing in many worlds."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        tasks = list(super().load_tasks(split))
        return [replace(tasks[0], task_id=f"{split}{n}", world={**tasks[0].world, "room": n}) for n in range(8)]


class Misleading(Quiz):
    """Its words ask for another sum than its references give."""

    def reading(self, task: Task) -> list[ToolCall]:
        return [ToolCall("answer", {"value": str(sum(numbers(task.world)) + 1)})]


class Rude(Monotonous):
    fingerprint = "<script>alert(1)</script>"


class Printable(Quiz):
    """Tells the sum to whoever looks, and takes an answer that holds it anywhere."""

    def tools(self) -> Sequence[dict[str, object]]:
        look = {"name": "look", "description": "Look", "parameters": {"type": "object", "properties": {}}}
        return [*TOOLS, {"type": "function", "function": look}]

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            if call == ToolCall("look"):
                return Observation("tool", f"between 1 and 999999: {sum(self._numbers)}")
            return super().step(call)

        def score(self) -> Score:
            return Score(float(str(sum(self._numbers)) in (self._given or "")))


class Silent(Quiz):
    """Cannot be asked for its tools."""

    def tools(self) -> Sequence[dict[str, object]]:
        raise RuntimeError("no tools today")


for kind in (Lavish, Stingy, Gullible, Boundless, Moody, Scattered, Shared, Talkative, Parrot, Obliging, Printable):
    kind.open = lambda self: type(self).Play()  # type: ignore[method-assign]
assert numbers

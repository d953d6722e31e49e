"""Environments with one fault each, as found in the wild. All are quizzes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.methods import MethodEnvironment, Question
from tests.unit.environments.quiz import TOOLS, HeldOut, QuizSession, numbers


class Lavish(HeldOut):
    """Gives the full reward for nothing."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(1.0)


class Stingy(HeldOut):
    """Gives the right answer half of the reward."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(0.5 * super().score().reward, {"right": False})


class Gullible(HeldOut):
    """Accepts any answer that holds a number of the question."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(float(any(str(one) in (self._given or "") for one in [*self._numbers, sum(self._numbers)])))


class Boundless(HeldOut):
    """Gives a reward above 1."""

    class Play(QuizSession):
        def score(self) -> Score:
            return Score(3.0 * super().score().reward)


class Moody(HeldOut):
    """Answers differently every time."""

    said = 0

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            Moody.said += 1
            return replace(super().step(call), content=f"taken {Moody.said}")


class Scattered(HeldOut):
    """Its answers depend on the order of a set."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            return replace(super().step(call), content=" ".join({f"word{n}" for n in range(50)}))


class Shared(HeldOut):
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


class Talkative(HeldOut):
    """Tells the sum after a wrong answer and allows another try."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            right = str(sum(self._numbers))
            if call.name == "answer" and call.arguments.get("value") not in (None, right):
                return Observation("tool", f"wrong, it is {right}", error=True)
            return super().step(call)


class Obliging(HeldOut):
    """Accepts calls of any tool."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            return replace(super().step(call), error=False)


class Leaky(HeldOut):
    """Tests on its training tasks."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [replace(task, split=split, task_id=f"{split}{n}") for n, task in enumerate(super().load_tasks("seed"))]


class Terse(HeldOut):
    """Asks for everything in the same words: the agent must look into the world. No fault."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [replace(task, turns=["add the numbers of this room"]) for task in super().load_tasks(split)]


class Monotonous(HeldOut):
    """Asks the same question in many worlds."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        tasks = list(super().load_tasks(split))
        return [replace(tasks[0], task_id=f"{split}{n}", world={**tasks[0].world, "room": n}) for n in range(8)]


class Misleading(HeldOut):
    """Its words ask for another sum than its references give."""

    def reading(self, task: Task) -> list[ToolCall]:
        return [ToolCall("answer", {"value": str(sum(numbers(task.world)) + 1)})]


class Door:
    """A world with a door, which obeys under its label."""

    def __init__(self, label: str) -> None:
        self.label, self.done = label, ""

    def _obey(self, door: str, what: str) -> str:
        if door != self.label:
            raise ValueError(f"no door {door}")
        self.done = what
        return "done"

    def lock(self, door: str) -> str:
        return self._obey(door, "lock")

    def paint(self, door: str) -> str:
        return self._obey(door, "paint")

    def oil(self, door: str) -> str:
        return self._obey(door, "oil")

    def shut(self, door: str) -> str:
        return self._obey(door, "shut")


class Separate(MethodEnvironment):
    """Each world has a door with a label of its own, so that calls of another task have no effect."""

    name, simulator = "separate", Door

    def questions(self, split: str) -> Iterator[Question]:
        for number, tool in enumerate(("lock", "paint", "oil", "shut")):
            label = f"{split}{number}"
            yield f"please {tool} {label}", {"label": label}, [ToolCall(tool, {"door": label})]


class Prompting(HeldOut):
    """Shows the label in the text that opens an episode."""

    class Play(QuizSession):
        def reset(self, task: Task) -> Observation:
            heard = super().reset(task)
            return replace(heard, content=f"{heard.content} (expected: {sum(self._numbers)})")


class Hinting(HeldOut):
    """Describes its tool by the answer that it takes."""

    class Play(QuizSession):
        def reset(self, task: Task) -> Observation:
            heard = super().reset(task)
            function = {**TOOLS[0]["function"], "description": f"Give the sum, such as {sum(self._numbers)}"}
            return replace(heard, tools=[{"type": "function", "function": function}])


def _reader(name: str, *arguments: str) -> dict[str, object]:
    properties = {argument: {"type": "string"} for argument in arguments}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


class Careless(HeldOut):
    """Leaves the grader's file where the agent can read it."""

    def tools(self) -> Sequence[dict[str, object]]:
        return [*TOOLS, _reader("ls"), _reader("read_file", "path")]

    class Play(QuizSession):
        right = True

        def step(self, call: ToolCall) -> Observation:
            if call == ToolCall("ls"):
                return Observation("tool", '["notes.txt", "grader/expected.json"]')
            if call == ToolCall("read_file", {"path": "notes.txt"}):
                return Observation("tool", f"the numbers are {self._numbers}")
            if call == ToolCall("read_file", {"path": "grader/expected.json"}):
                return Observation("tool", json.dumps({"value": str(sum(self._numbers) + (not self.right))}))
            return super().step(call)


class Careful(Careless):
    """Shows the same files with another number in them."""

    class Play(Careless.Play):
        right = False


class Routine(HeldOut):
    """Its panel asks for the same templates as training: sums of two and of four numbers."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        start = 10**6 if split == "seed" else 10**7
        return [self.construct(goal, start + n) for goal in ("sum_2", "sum_4") for n in range(4)]


class Uniform(HeldOut):
    """Has a single kind of tasks."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [self.construct("sum_2", (10**6 if split == "seed" else 10**7) + n) for n in range(8)]


class Silent(HeldOut):
    """Cannot be asked for its tools."""

    def tools(self) -> Sequence[dict[str, object]]:
        raise RuntimeError("no tools today")


for kind in (
    *(Lavish, Stingy, Gullible, Boundless, Moody, Scattered, Shared, Talkative, Obliging),
    *(Prompting, Hinting, Careless, Careful),
):
    kind.open = lambda self: type(self).Play()  # type: ignore[method-assign]

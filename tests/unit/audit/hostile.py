"""Environments that attack whoever looks at them; all are quizzes."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from coevolve.core.task import Observation, Score, Task, ToolCall
from tests.unit.environments.quiz import HeldOut, QuizSession


class Numbered(HeldOut):
    """Its digest is always the number 5."""

    class Play(QuizSession):
        def digest(self) -> str:
            return 5  # type: ignore[return-value]


class Lengthy(HeldOut):
    """Its digest has 10 MB."""

    class Play(QuizSession):
        def digest(self) -> str:
            return super().digest() + "x" * 10**7


class Endless(HeldOut):
    """A message never ends an episode."""

    class Play(QuizSession):
        def say(self, text: str) -> Observation:
            return Observation("user", "go on")


class Blaring(HeldOut):
    """Answers a call with 20 MB."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            heard = super().step(call)
            return heard if heard.error else replace(heard, content="x" * (20 << 20))


class Brittle(HeldOut):
    """Raises at what it does not know."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            heard = super().step(call)
            if heard.error and call.name != "answer":
                raise KeyError(call.name)
            if heard.error:
                raise ZeroDivisionError
            return heard


class Blind(HeldOut):
    """Its digest sees no change."""

    class Play(QuizSession):
        def digest(self) -> str:
            return str(self._numbers)


class Unnumbered(HeldOut):
    class Play(QuizSession):
        def score(self) -> Score:
            return Score(float("nan"))


class Infinite(HeldOut):
    class Play(QuizSession):
        def score(self) -> Score:
            return Score(float("inf"))


class Wordy(HeldOut):
    class Play(QuizSession):
        def score(self) -> Score:
            return Score("much")  # type: ignore[arg-type]


class Quits(HeldOut):
    class Play(QuizSession):
        def reset(self, task: Task) -> Observation:
            raise SystemExit(3)


class Exits(HeldOut):
    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            os._exit(7)


class Interrupts(HeldOut):
    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            raise KeyboardInterrupt


class Stuck(HeldOut):
    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            time.sleep(10**6)
            raise AssertionError


class Unending(HeldOut):
    def load_tasks(self, split: str) -> Sequence[Task]:
        while True:
            time.sleep(0.1)


class Uncounted(HeldOut):
    def load_tasks(self, split: str) -> Iterator[Task]:  # type: ignore[override]
        task = super().load_tasks(split)[0]
        return (replace(task, task_id=str(number)) for number in count())


class Taskless(HeldOut):
    def load_tasks(self, split: str) -> Sequence[Any]:
        return ["a task", 5, None]


class Raises(HeldOut):
    def __init__(self) -> None:
        raise LookupError("no map")


class Vanishes(HeldOut):
    def __init__(self) -> None:
        os._exit(5)


for kind in list(vars().values()):
    if isinstance(kind, type) and "Play" in vars(kind):
        kind.open = lambda self: type(self).Play()  # type: ignore[attr-defined]

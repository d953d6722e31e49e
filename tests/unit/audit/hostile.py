"""Quizzes that break the contract."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coevolve.core.task import Observation, Score, ToolCall
from tests.unit.environments.quiz import HeldOut, QuizSession


class Numbered(HeldOut):
    """Its digest is always the number 5."""

    class Play(QuizSession):
        def digest(self) -> str:
            return 5  # type: ignore[return-value]


class Brittle(HeldOut):
    """Raises at unknown calls."""

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


class Fickle(HeldOut):
    """Judges an episode differently when it is asked again."""

    scored = 0

    class Play(QuizSession):
        def score(self) -> Score:
            Fickle.scored += 1
            return replace(super().score(), checks={str(Fickle.scored): True})


class Taskless(HeldOut):
    def load_tasks(self, split: str) -> Sequence[Any]:
        return ["a task", 5, None]


for kind in list(vars().values()):
    if isinstance(kind, type) and "Play" in vars(kind):
        kind.open = lambda self: type(self).Play()  # type: ignore[attr-defined]

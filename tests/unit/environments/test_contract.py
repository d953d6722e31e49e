"""Every installed environment keeps the contract, and the checks find violations."""

import random
from dataclasses import replace
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.contract import CHECKS
from coevolve.environments.environment import Environment
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from tests.unit.environments.quiz import Quiz
from tests.unit.test_rollout import Around


@pytest.mark.parametrize(("environment", "count"), [(Miniworld(), 10), (Quiz(), 3)])
@pytest.mark.parametrize("check", CHECKS)
def test_environment_keeps_the_contract(check: str, environment: Environment, count: int) -> None:
    """The second constructs its tasks."""
    CHECKS[check](environment, count)


def another(goal: str, seed: int) -> Task:
    """A task of this goal that ignores the seed."""
    return Quiz().construct(goal, random.randrange(10**9))


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"construct": another}, "construct\\(\\) returns different tasks for the same seed"),
        ({"goals": ("sum_2", "sum_3")}, "sum_3"),
        ({"construct": lambda goal, seed: replace(Quiz().construct(goal, seed), tags=[])}, "without this tag"),
        ({"construct": lambda goal, seed: replace(Quiz().construct(goal, seed), turns=["add"])}, "its world says"),
        ({"construct": lambda goal, seed: replace(Quiz().construct(goal, seed), reference=[[]])}, "reference"),
        ({"goals": ["sum_2"]}, "goals is not a tuple of names"),
    ],
)
def test_wrongly_constructed_task_is_found(broken: dict[str, Any], said: str) -> None:
    quiz = Quiz()
    vars(quiz).update(broken)
    with pytest.raises((AssertionError, KeyError), match=said):
        for check in ("is_an_environment", "what_is_constructed_is_a_task"):
            CHECKS[check](quiz, 2)


class Generous(MiniworldSession):
    def score(self) -> Score:
        return Score(1.0)


class Lenient(MiniworldSession):
    def step(self, call: ToolCall) -> Observation:
        return replace(super().step(call), error=False)


class Forgetful(MiniworldSession):
    opened = 0

    def step(self, call: ToolCall) -> Observation:
        Forgetful.opened += 1
        return replace(super().step(call), content=str(Forgetful.opened))


@pytest.mark.parametrize(
    ("session", "check"),
    [
        (Generous, "nothing_fails"),
        (Generous, "sessions_are_apart"),
        (Lenient, "unknown_tool_is_an_error_turn"),
        (Lenient, "bad_argument_is_an_error_turn"),
        (Forgetful, "same_task_same_bytes"),
    ],
)
def test_broken_promise_is_found(session: Any, check: str) -> None:
    with pytest.raises(AssertionError):
        CHECKS[check](Around(session), 3)


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("is_an_environment", {"capacity": 0}),
        ("is_an_environment", {"panels": ["test"]}),
        ("is_an_environment", {"fingerprint": ""}),
        ("is_an_environment", {"quarantine": ["1"]}),
        ("is_an_environment", {"phrasebook": {}}),
        ("is_an_environment", {"open": lambda: object()}),
        ("answers_about_tasks_are_usable", {"category": lambda task: 1}),
        ("answers_about_tasks_are_usable", {"scenario": lambda task: ""}),
        ("answers_about_tasks_are_usable", {"fresh_world": lambda task, seed: None}),
        ("answers_about_tasks_are_usable", {"fresh_world": lambda task, seed: {}}),
    ],
)
def test_member_of_a_wrong_type_is_found(check: str, broken: dict[str, Any]) -> None:
    world = Miniworld()
    vars(world).update(broken)
    with pytest.raises((AssertionError, CoevolveError)):
        CHECKS[check](world, 1)

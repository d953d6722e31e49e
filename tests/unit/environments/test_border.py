"""Calls cross to a session as copies and in the types of its tools, by every way in."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.audit.subject import Subject
from coevolve.core.hashing import by_value
from coevolve.core.task import DONE, Task, ToolCall
from coevolve.environments.border import crossed
from coevolve.environments.chains import replay
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.trainers.replay import call, say, score
from tests.unit.environments.courier import TOOLS, Courier
from tests.unit.environments.parcels import Parcels
from tests.unit.stages.train.small import WORLD
from tests.waiting import PATIENCE

WORLDS: list[Environment] = [WORLD, Parcels(), Courier()]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
Calls = list[list[ToolCall]]


class Fixed(ReferencePolicy):
    """Makes the given calls."""

    def __init__(self, environment: Environment, calls: Calls) -> None:
        super().__init__(environment, parallel=True)
        self._calls = calls

    def planned(self, conversation: Conversation) -> Calls:
        return self._calls


def by_rollout(world: Environment, task: Task, calls: Calls) -> float:
    limits = Limits(64, 10**9, 10**9, PATIENCE)
    (episode,) = rollout(Fixed(world, calls), world, [RolloutRequest(task, 0)], limits)
    made = [[one.name, one.arguments] for one in episode.trajectory.calls]
    assert repr(made) == repr([[one.name, one.arguments] for turn in calls for one in turn][: len(made)])
    return episode.trajectory.score


def by_requests(world: Environment, task: Task, calls: Calls) -> float:
    requests = [one for turn in calls for one in [*(call(each.name, each.arguments) for each in turn), say(DONE)]]
    return score(world, task, requests).reward


def by_replay(world: Environment, task: Task, calls: Calls) -> float:
    session = world.open()
    replay(session, task, calls)
    return session.score().reward


def by_audit(world: Environment, task: Task, calls: Calls) -> float:
    return Subject(world, 1, world.name).play(task, calls).reward


def otherwise(value: Any, draw: Callable[[], bool]) -> Any:
    """``value`` with some of its whole numbers as floats."""
    if isinstance(value, dict):
        return {key: otherwise(one, draw) for key, one in value.items()}
    if isinstance(value, list):
        return [otherwise(one, draw) for one in value]
    whole = isinstance(value, int) and not isinstance(value, bool)
    return (float(value) if value else -0.0) if whole and draw() else value


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("way", [by_rollout, by_requests, by_replay, by_audit])
@given(data=st.data())
@settings(max_examples=15, deadline=None, derandomize=True)
def test_whole_numbers_score_as_the_reference_and_no_session_changes_them(
    world: Environment, way: Callable[[Environment, Task, Calls], float], data: st.DataObject
) -> None:
    tasks = [one for one in world.tasks("seed") if repr(one.calls).count(": ") > len(one.calls)]
    task = tasks[data.draw(st.integers(0, min(len(tasks), 40) - 1))]
    calls = [
        [ToolCall(one.name, otherwise(one.arguments, lambda: data.draw(st.booleans()))) for one in turn]
        for turn in task.reference
    ]
    before = repr(calls)
    assert way(world, task, calls) == way(world, task, copy.deepcopy(task.reference))
    assert repr(calls) == before and task.content_id == task.task_id
    assert way(world, task, task.reference) == way(world, task, copy.deepcopy(task.reference))
    assert task.content_id == task.task_id


@given(st.dictionaries(st.text(), VALUES, max_size=3))
@settings(deadline=None, derandomize=True)
def test_what_crosses_is_equal_and_shares_nothing(arguments: dict[str, Any]) -> None:
    made = crossed(ToolCall("send", arguments), TOOLS)
    assert made == ToolCall("send", arguments)
    kept = copy.deepcopy(arguments)
    spoil(made.arguments)
    assert repr(arguments) == repr(kept)


def spoil(value: Any) -> None:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        spoil(inner)
    if isinstance(value, dict | list):
        value.clear()


def test_the_schema_decides_the_type() -> None:
    parts = {
        "whole": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "real": {"type": "number"},
        "inner": {"$ref": "#/$defs/inner"},
        "others": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    inner = {"type": "array", "items": {"type": "object", "properties": {"whole": {"type": "integer"}}}}
    parameters = {"type": "object", "properties": parts, "$defs": {"inner": inner}}
    tools = [{"type": "function", "function": {"name": "set", "description": "", "parameters": parameters}}]
    given: dict[str, Any] = {
        "whole": 7.0, "maybe": 5.0, "real": -0.0, "inner": [{"whole": 2.0, "free": 2.0}], "others": {"x": 1.0, "y": 1.5},
    }  # fmt: skip
    wanted = {"whole": 7, "maybe": 5, "real": 0.0, "inner": [{"whole": 2, "free": 2.0}], "others": {"x": 1, "y": 1.5}}
    assert repr(crossed(ToolCall("set", given), tools).arguments) == repr(wanted)
    assert repr(crossed(ToolCall("unknown", given), tools).arguments) == repr({**given, "real": 0.0})


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_a_call_whose_equal_numbers_are_equally_written_crosses_unchanged(arguments: dict[str, Any]) -> None:
    """So a replay of a reference that comes from rollouts makes the same calls as a class that gets them by hand."""
    written = by_value(arguments)
    for tools in (None, TOOLS):
        assert repr(crossed(ToolCall(TOOLS[0]["function"]["name"], written), tools).arguments) == repr(written)

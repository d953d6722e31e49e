"""Failures by how close they come: what is ranked, by hand, and in a real world."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.pairs.closeness import Failure, acts, closeness, distance, failures, ranked
from tests.unit.stages.train.small import WORLD

A, B, C = ToolCall("a", {"x": 1}), ToolCall("b", {"x": 1}), ToolCall("a", {"x": 2})
calls = st.lists(st.sampled_from([A, B, C, ToolCall("d")]), max_size=6)


@pytest.mark.parametrize(
    ("made", "wanted", "expected"),
    [
        ([], [], 0.0),
        ([A], [], 1.0),
        ([A], [A], 0.0),
        ([A], [B], 0.5),  # the same arguments
        ([A], [C], 0.5),  # the same tool
        ([B], [C], 1.0),
        ([A, B], [B], 1.0),
        ([A, B, C], [A, C, C], 1.0),
        ([B, A], [A, B], 1.0),  # two that are alike, not two moved
    ],
)
def test_distance_matches_hand_computation(made: list[ToolCall], wanted: list[ToolCall], expected: float) -> None:
    assert distance(made, wanted) == expected


@given(calls, calls, calls)
def test_distance_is_a_metric(one: list[ToolCall], two: list[ToolCall], three: list[ToolCall]) -> None:
    assert distance(one, two) == distance(two, one)
    assert (distance(one, two) == 0) == (one == two)
    assert distance(one, three) <= distance(one, two) + distance(two, three)
    assert abs(len(one) - len(two)) <= distance(one, two) <= max(len(one), len(two))


def test_closeness_matches_hand_computation() -> None:
    assert closeness(Failure(0.245, [A, B], [A, B], idle=True)) == 0.0
    assert closeness(Failure(0.25, [A], [A, B], idle=False)) == 0.5 * 0.5 + 0.5 * 0.5
    assert closeness(Failure(0.9, [A, B], [A, B], idle=False)) == 1.0
    assert closeness(Failure(0.0, [], [], idle=False)) == 0.5


def episode(task: Task, made: list[ToolCall]) -> Trajectory:
    """The episode that makes these calls at ``task``."""
    session = WORLD.open()
    session.reset(task)
    done = [(call, session.step(call)) for call in made]
    outcomes = [CallOutcome(call.name, call.arguments, not turn.error, turn.content, 0) for call, turn in done]
    return Trajectory("", task.task_id, 0, 0, 0, 0, [], outcomes, session.score().reward, StopReason.DONE, [1])


def test_doing_nothing_is_less_close_than_a_wrong_object() -> None:
    task = next(task for task in WORLD.tasks("broad") if task.tools == ["find_mail", "archive_mail", "complete_task"])
    find, archive, end = task.calls
    (reference,) = rollout(ReferencePolicy(WORLD), WORLD, [RolloutRequest(task, 0)], Limits(16, 512, 64, 30.0))
    nothing = replace(episode(task, [find, end]), trajectory_id="nothing")
    alike = replace(episode(task, [find, ToolCall("delete_mail", archive.arguments), end]), trajectory_id="alike")
    found = failures(WORLD, [task], {task.task_id: reference.trajectory}, [nothing, alike, reference.trajectory])
    close = ranked(found)
    assert close["nothing"] == 0.0 < close["alike"]
    assert found["nothing"].score > found["alike"].score > 0.0


def test_lookups_and_endings_do_not_count_as_acting() -> None:
    task = next(task for task in WORLD.tasks("broad") if task.tools == ["find_mail", "archive_mail", "complete_task"])
    session = WORLD.open()
    find, archive, end = task.calls
    assert not acts(session, task, [])
    assert not acts(session, task, episode(task, [find, end]).calls)
    assert not acts(session, task, episode(task, [ToolCall("archive_mail", {"mail_id": "none"})]).calls)
    assert acts(session, task, episode(task, [find, archive]).calls)


@pytest.mark.parametrize(
    ("text", "tokens", "counts"),
    [
        ("", [], False),
        ("", [0], False),  # the prompt left no room for a reply
        ("", [3], True),
        ("", [3, 0], True),
        ("done", [0], True),  # a policy without tokens
    ],
)
def test_episode_without_agent_text_is_no_failure(text: str, tokens: list[int], counts: bool) -> None:
    task = WORLD.tasks("broad")[0]
    (reference,) = rollout(ReferencePolicy(WORLD), WORLD, [RolloutRequest(task, 0)], Limits(16, 512, 64, 30.0))
    messages = [{"role": "user", "content": "task"}, {"role": "assistant", "content": text}]
    failed = replace(episode(task, []), trajectory_id="f", messages=messages, tokens=tokens)
    found = failures(WORLD, [task], {task.task_id: reference.trajectory}, [failed])
    assert ("f" in found) is counts

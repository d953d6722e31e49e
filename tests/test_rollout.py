"""Episodes through the one loop: every end has its reason, and environments step concurrently."""

import time
from typing import Any

import pytest

from coevolve.environments import make
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.policies.base import Conversation, Reply
from coevolve.policies.scripted import ReferencePolicy
from coevolve.records import StopReason, ToolCall, Turn
from coevolve.rollout import Assignment, Limits, judged, play

WORLD = make("miniworld")
TASKS = WORLD.tasks("seed")[:12]
LIMITS = Limits(max_turns=16, max_tokens=512, max_reply=64, max_seconds=30.0)


class Says:
    """A policy that always replies the same."""

    name = "says"

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def begin(self, conversations: Any) -> None:
        pass

    def act(self, conversations: list[Conversation]) -> list[Reply]:
        return [self._reply for _ in conversations]


class Around:
    """miniworld with a session of another class."""

    name, fingerprint, panels = "miniworld", "around", ()

    def __init__(self, session: type[MiniworldSession]) -> None:
        self.open = session
        self.tasks, self.tools, self.reference = WORLD.tasks, WORLD.tools, WORLD.reference


def test_the_reference_policy_succeeds_and_its_corruption_fails() -> None:
    right = play(ReferencePolicy(WORLD), WORLD, [Assignment(task, 0) for task in TASKS], LIMITS)
    assert all(one.trajectory.success for one in right)
    assert {one.trajectory.stop_reason for one in right} == {StopReason.DONE}
    wrong = play(ReferencePolicy(WORLD, 1.0), WORLD, [Assignment(task, 0) for task in TASKS], LIMITS)
    assert not any(one.trajectory.success for one in wrong)


def test_episodes_come_in_the_order_of_assignments_whatever_the_batch() -> None:
    assignments = [Assignment(task, 0, step=3, group=row, sample=1) for row, task in enumerate(TASKS)]
    whole, parts = (play(ReferencePolicy(WORLD), WORLD, assignments, LIMITS, batch=size) for size in (64, 5))
    assert [one.trajectory for one in whole] == [one.trajectory for one in parts]
    assert [one.trajectory.task_id for one in whole] == [task.task_id for task in TASKS]


def test_calls_are_recorded_with_their_outcome() -> None:
    (episode,) = play(ReferencePolicy(WORLD), WORLD, [Assignment(TASKS[0], 0)], LIMITS)
    assert [ToolCall(call.name, call.arguments) for call in episode.trajectory.calls] == TASKS[0].reference[0]
    assert all(call.ok for call in episode.trajectory.calls)
    assert [message["role"] for message in episode.trajectory.messages][:3] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("reply", "reason", "turns"),
    [
        (Reply("x", [ToolCall("balance", {})]), StopReason.MAX_TURNS, 16),
        (Reply("x", invalid=True, error="not JSON"), StopReason.INVALID, 3),
        (Reply("x", truncated=True), StopReason.MAX_TOKENS, 1),
        (Reply("just words"), StopReason.DONE, 1),
    ],
)
def test_every_end_has_its_reason(reply: Reply, reason: StopReason, turns: int) -> None:
    (episode,) = play(Says(reply), WORLD, [Assignment(TASKS[0], 0)], LIMITS)
    assert episode.trajectory.stop_reason is reason
    assert len(episode.replies) == turns
    assert not episode.trajectory.success


def test_tokens_are_counted_against_the_budget() -> None:
    seen = []

    class Counts(Says):
        def act(self, conversations: list[Conversation]) -> list[Reply]:
            seen.append(conversations[0].budget)
            return super().act(conversations)

    play(
        Counts(Reply("x", [ToolCall("balance", {})], [1] * 5, [2] * 3, [0.0] * 3)),
        WORLD,
        [Assignment(TASKS[0], 0)],
        LIMITS,
    )
    assert seen[:3] == [512, 504, 496]


def test_an_environment_that_breaks_is_not_the_agents_failure() -> None:
    class Breaks(MiniworldSession):
        def step(self, call: ToolCall) -> Turn:
            raise OSError("gone")

    episodes = play(ReferencePolicy(WORLD), Around(Breaks), [Assignment(task, 0) for task in TASKS[:2]], LIMITS)
    assert {one.trajectory.stop_reason for one in episodes} == {StopReason.ENVIRONMENT_FAILED}
    assert "OSError: gone" in episodes[0].trajectory.messages[-1]["content"]
    assert list(judged(episodes)) == []


def test_an_environment_that_hangs_times_out() -> None:
    class Hangs(MiniworldSession):
        def step(self, call: ToolCall) -> Turn:
            time.sleep(1.5)
            return super().step(call)

    limits = Limits(16, 512, 64, 0.3)
    (episode,) = play(ReferencePolicy(WORLD), Around(Hangs), [Assignment(TASKS[0], 0)], limits)
    assert episode.trajectory.stop_reason is StopReason.TIMEOUT
    assert episode.trajectory.score == 0.0


def test_environments_step_concurrently() -> None:
    class Slow(MiniworldSession):
        def step(self, call: ToolCall) -> Turn:
            time.sleep(0.05)
            return super().step(call)

    began = time.monotonic()
    assignments = [Assignment(TASKS[0], seed) for seed in range(16)]
    play(ReferencePolicy(WORLD), Around(Slow), assignments, LIMITS)
    one_after_the_other = 16 * len(TASKS[0].reference[0]) * 0.05
    assert time.monotonic() - began < one_after_the_other / 2

"""Episodes in the single rollout loop: every stop has its reason, and environments step concurrently."""

import errno
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.success import is_success
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.core.trajectories import StopReason, read_trajectories, write_trajectories
from coevolve.core.untrusted import DEPTH
from coevolve.environments.environment import EnvironmentFailed, FailureReason, SessionLost
from coevolve.policies.policy import Conversation, Reply
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession
from tests.unit.core.test_task import nested
from tests.unit.environments import unruly
from tests.unit.stages.train.small import WORLD
from tests.waiting import PATIENCE

TASKS = WORLD.tasks("seed")[:12]
LIMITS = Limits(max_turns=16, episode_tokens=512, reply_tokens=64, max_seconds=2 * PATIENCE)


class Says:
    """A policy that always gives the same reply."""

    name = "says"

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def begin(self, conversations: Any) -> None:
        pass

    def act(self, conversations: list[Conversation]) -> list[Reply]:
        return [self._reply for _ in conversations]


class Around(Miniworld):
    """miniworld with other sessions."""

    def __init__(self, session: Callable[[], MiniworldSession]) -> None:
        self._session = session

    def open(self) -> MiniworldSession:
        return self._session()


def test_reference_policy_succeeds_and_its_corruption_fails() -> None:
    right = rollout(ReferencePolicy(WORLD), WORLD, [RolloutRequest(task, 0) for task in TASKS], LIMITS)
    assert all(is_success(one.trajectory.score) for one in right)
    assert {one.trajectory.stop_reason for one in right} == {StopReason.DONE}
    wrong = rollout(ReferencePolicy(WORLD, 1.0), WORLD, [RolloutRequest(task, 0) for task in TASKS], LIMITS)
    assert not any(is_success(one.trajectory.score) for one in wrong)


def test_episodes_keep_the_order_of_requests_for_any_batch() -> None:
    assignments = [RolloutRequest(task, 0, step=3, group=row, sample=1) for row, task in enumerate(TASKS)]
    whole, parts = (
        rollout(ReferencePolicy(WORLD), WORLD, assignments, replace(LIMITS, batch=size)) for size in (64, 5)
    )
    assert [one.trajectory for one in whole] == [one.trajectory for one in parts]
    assert [one.trajectory.task_id for one in whole] == [task.task_id for task in TASKS]


@pytest.mark.parametrize(
    ("reply", "reason", "turns"),
    [
        (Reply("x", [ToolCall("balance", {})]), StopReason.MAX_TURNS, 16),
        (Reply("x", invalid=True, error="not JSON"), StopReason.INVALID, 3),
        (Reply("x", truncated=True), StopReason.MAX_TOKENS, 1),
        (Reply("just words"), StopReason.DONE, 1),
    ],
)
def test_every_stop_has_its_reason(reply: Reply, reason: StopReason, turns: int) -> None:
    (episode,) = rollout(Says(reply), WORLD, [RolloutRequest(TASKS[0], 0)], LIMITS)
    assert episode.trajectory.stop_reason is reason
    assert len(episode.replies) == turns
    assert not is_success(episode.trajectory.score)


def breaks(method: str, error: BaseException) -> type[MiniworldSession]:
    """A session whose ``method`` raises ``error``."""

    def broken(self: MiniworldSession, *_: object) -> None:
        raise error

    return type("Breaks", (MiniworldSession,), {method: broken})


@pytest.mark.parametrize("method", ["step", "say", "score", "begin_reply"])
@pytest.mark.parametrize(
    "error",
    [
        KeyError("gone"),
        EnvironmentFailed("gone"),  # which a session may say without knowing it
        SystemExit("gone"),
    ],
)
def test_error_after_a_call_is_the_agents_failure_and_scores_0(method: str, error: BaseException) -> None:
    policy = ReferencePolicy(WORLD) if method != "say" else Says(Reply("just words"))
    requests = [RolloutRequest(task, 0) for task in TASKS[:2]]
    episodes = rollout(policy, Around(breaks(method, error)), requests, LIMITS)
    assert {one.trajectory.stop_reason for one in episodes} == {StopReason.BROKEN}
    assert f"broken: {type(error).__name__}: " in episodes[0].trajectory.messages[-1]["content"]
    assert [(one.trajectory.score, one.trajectory.checks) for one in scored(episodes)] == [(0.0, {})] * 2


@pytest.mark.parametrize(
    ("method", "error", "failure"),
    [
        ("__init__", KeyError("gone"), FailureReason.START),
        ("reset", KeyError("gone"), FailureReason.START),
        ("reset", SystemExit(0), FailureReason.START),
        ("step", SessionLost("gone"), FailureReason.LOST),
        ("step", OSError(errno.ENOSPC, "gone"), FailureReason.MACHINE),
        ("score", OSError(errno.EMFILE, "gone"), FailureReason.MACHINE),
    ],
)
def test_failure_before_any_call_is_not_scored(
    method: str, error: BaseException, failure: FailureReason, tmp_path: Path
) -> None:
    requests = [RolloutRequest(task, 0) for task in TASKS[:2]]
    episodes = rollout(ReferencePolicy(WORLD), Around(breaks(method, error)), requests, LIMITS)
    assert {one.trajectory.stop_reason for one in episodes} == {StopReason.ENVIRONMENT_FAILED}
    assert "environment failed: " in episodes[0].trajectory.messages[-1]["content"]
    assert list(scored(episodes)) == []
    assert [one.trajectory.failure for one in episodes] == [failure] * 2
    write_trajectories(tmp_path / "t.parquet", [one.trajectory for one in episodes])
    assert read_trajectories(tmp_path / "t.parquet") == [one.trajectory for one in episodes]


def test_call_that_may_have_been_executed_is_not_repeated() -> None:
    made = []

    class Breaks(MiniworldSession):
        def step(self, call: ToolCall) -> Observation:
            made.append(call)
            raise OSError(errno.EIO, "the disk is gone")

    (episode,) = rollout(ReferencePolicy(WORLD), Around(Breaks), [RolloutRequest(TASKS[0], 0)], LIMITS)
    assert episode.trajectory.stop_reason is StopReason.ENVIRONMENT_FAILED and len(made) == 1
    assert episode.trajectory.calls == [], "it got no answer"


@pytest.mark.parametrize("method", ["step", "say", "score", "begin_reply"])
def test_world_that_is_gone_for_every_session_is_not_scored(method: str) -> None:
    """A call broke the session, and no new session starts."""

    class Gone(Miniworld):
        opened = 0

        def open(self) -> MiniworldSession:
            self.opened += 1
            if self.opened > 2:
                raise ConnectionRefusedError("gone")
            return breaks(method, EnvironmentFailed("gone"))()

    policy = ReferencePolicy(WORLD) if method != "say" else Says(Reply("just words"))
    episodes = rollout(policy, Gone(), [RolloutRequest(task, 0) for task in TASKS[:3]], LIMITS)
    assert [one.trajectory.stop_reason for one in episodes] == [StopReason.ENVIRONMENT_FAILED] * 3
    assert sorted(one.trajectory.failure for one in episodes) == sorted(
        [FailureReason.GONE, FailureReason.GONE, FailureReason.START]
    )


def test_reward_that_is_not_finite_breaks_the_episode() -> None:
    class Odd(MiniworldSession):
        def score(self) -> Score:
            return Score(float("nan"))

    (episode,) = rollout(ReferencePolicy(WORLD), Around(Odd), [RolloutRequest(TASKS[0], 0)], LIMITS)
    assert (episode.trajectory.stop_reason, episode.trajectory.score) == (StopReason.BROKEN, 0.0)


def test_file_without_failures_has_no_failure_column(tmp_path: Path) -> None:
    """Otherwise the bytes of a run without failures would change."""
    import pyarrow.parquet as pq

    played = rollout(ReferencePolicy(WORLD), WORLD, [RolloutRequest(TASKS[0], 0)], LIMITS)
    write_trajectories(tmp_path / "t.parquet", [one.trajectory for one in played])
    assert "failure" not in pq.read_schema(tmp_path / "t.parquet").names


def test_invalid_call_is_an_error_turn_and_reaches_no_session() -> None:
    class Hears(MiniworldSession):
        def step(self, call: ToolCall) -> Observation:
            raise AssertionError("it was reached")

    reply = Reply("x", [ToolCall("balance", {"value": nested(DEPTH)})])
    (episode,) = rollout(Says(reply), Around(Hears), [RolloutRequest(TASKS[0], 0)], LIMITS)
    assert episode.trajectory.stop_reason is StopReason.INVALID
    assert episode.trajectory.calls == []
    assert "not readable: " in episode.trajectory.messages[2]["content"]


def hanging(method: str, names: set[str]) -> type[MiniworldSession]:
    """A session whose ``method`` never ends for the tasks ``names``."""

    class Hangs(MiniworldSession):
        def reset(self, task: Task) -> Observation:
            self._hangs = task.task_id in names
            return self._wait("reset") or super().reset(task)

        def step(self, call: ToolCall) -> Observation:
            return self._wait("step") or super().step(call)

        def _wait(self, name: str) -> None:
            if self._hangs and name == method:
                threading.Event().wait()

    return Hangs


@pytest.mark.parametrize(("method", "reason"), [("step", StopReason.TIMEOUT), ("reset", StopReason.ENVIRONMENT_FAILED)])
def test_endless_call_costs_only_its_own_episode(method: str, reason: StopReason) -> None:
    stuck = {task.task_id for task in TASKS[:3]}
    requests = [RolloutRequest(task, 0) for task in TASKS]
    limits = replace(LIMITS, max_seconds=1.0)
    world = Around(hanging(method, stuck))
    episodes = [one.trajectory for one in rollout(ReferencePolicy(WORLD), world, requests, limits, workers=2)]
    assert [one.stop_reason for one in episodes] == [reason] * 3 + [StopReason.DONE] * 9
    assert [one.score for one in episodes] == [0.0] * 3 + [1.0] * 9
    note = f"{reason.replace('_', ' ')}: no answer within 1 s"
    assert [one.messages[-1]["content"] == note for one in episodes] == [True] * 3 + [False] * 9


def test_time_outside_calls_ends_no_episode() -> None:
    """The policy takes longer than a call may take, and calls wait for each other for longer than that."""
    turn = threading.Lock()

    class Slow(ReferencePolicy):
        def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
            time.sleep(0.8)
            return super().act(conversations)

    class Queues(MiniworldSession):
        def step(self, call: ToolCall) -> Observation:
            with turn:
                time.sleep(0.15)
                return super().step(call)

    task = min(TASKS, key=lambda task: len(task.calls))
    limits, requests = replace(LIMITS, max_seconds=0.5), [RolloutRequest(task, seed) for seed in range(6)]
    episodes = rollout(Slow(WORLD), Around(Queues), requests, limits)
    assert {one.trajectory.stop_reason for one in episodes} == {StopReason.DONE}


def test_environments_step_concurrently() -> None:
    together = threading.Barrier(16, timeout=PATIENCE)

    class Meets(MiniworldSession):
        def step(self, call: ToolCall) -> Observation:
            together.wait()  # for the other fifteen
            return super().step(call)

    assignments = [RolloutRequest(TASKS[0], seed) for seed in range(16)]
    episodes = rollout(ReferencePolicy(WORLD), Around(Meets), assignments, LIMITS)
    assert all(is_success(one.trajectory.score) for one in episodes)


def test_all_calls_of_a_session_come_from_one_thread() -> None:
    seen: list[set[int]] = []

    class Watched(unruly.SwitchSession):
        def __init__(self) -> None:
            self.threads = {threading.get_ident()}
            seen.append(self.threads)

        def __getattribute__(self, name: str) -> Any:
            if name in ("reset", "step", "say", "score", "close", "begin_reply"):
                object.__getattribute__(self, "threads").add(threading.get_ident())
            return object.__getattribute__(self, name)

    class House(unruly.Switches):
        session = Watched

    house = House()
    requests = [RolloutRequest(task, seed) for task in house.tasks("seed") for seed in range(8)]
    played = rollout(ReferencePolicy(house), house, requests, replace(LIMITS, batch=16), workers=3)
    assert {one.trajectory.stop_reason for one in played} == {StopReason.DONE}
    assert {one.trajectory.score for one in played} == {1.0}, "its database refuses other threads"
    assert len(seen) == len(requests) and all(len(threads) == 1 for threads in seen)


@pytest.mark.parametrize("habit", [unruly.Unclosed, unruly.with_habit("close", lambda *_: threading.Event().wait())])
def test_session_that_does_not_close_keeps_its_score(habit: type[unruly.Switches]) -> None:
    house = habit()
    requests = [RolloutRequest(task, 0) for task in house.tasks("seed")[:2]]
    played = rollout(ReferencePolicy(house), house, requests, replace(LIMITS, max_seconds=0.5))
    assert [(one.trajectory.stop_reason, one.trajectory.score) for one in played] == [(StopReason.DONE, 1.0)] * 2


def test_an_interrupted_episode_says_what_interrupted_it() -> None:
    for habit, end in (
        (unruly.Broken, (StopReason.BROKEN, "RuntimeError: the bulb is gone")),
        (unruly.Leaving, (StopReason.BROKEN, "SystemExit: 3")),
        (unruly.Shut, (StopReason.ENVIRONMENT_FAILED, "no session started: OSError: the house is locked")),
        (unruly.Stuck, (StopReason.TIMEOUT, "no answer within 0.5 s")),
        (unruly.Switches, (StopReason.DONE, "")),
    ):
        house = habit()
        (one,) = rollout(
            ReferencePolicy(house), house, [RolloutRequest(house.tasks("seed")[0], 0)], replace(LIMITS, max_seconds=0.5)
        )
        assert one.trajectory.end == end

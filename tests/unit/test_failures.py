"""An infrastructure failure never becomes a sample of reward zero (invariants of NeMo Gym #2750), in any stage.

The oracle is the same world without the tasks that it breaks on: whatever is counted must come out the same.
"""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.io import write_jsonl
from coevolve.core.learnability import recorded
from coevolve.core.records import Attempt, Signal
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory, read_trajectories, write_trajectories
from coevolve.environments.environment import FailureReason
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.table import open_table
from coevolve.stages.train.groups import attempts
from coevolve.stages.validate.indicators import measure, notes
from tests.unit.stages.train.small import PARAMS, WORLD
from tests.unit.test_rollout import Around
from tests.waiting import PATIENCE

TASKS = list(WORLD.tasks("seed")[:16])
BROKEN = {task.task_id for task in TASKS[::3]}
FINE = [task for task in TASKS if task.task_id not in BROKEN]
LIMITS = Limits(20, 10**6, 64, PATIENCE)
CONFIG = PARAMS


class BreaksAt(MiniworldSession):
    """Breaks at the second call of some tasks. The first call is done and may have changed the world."""

    made: dict[str, int] = {}  # noqa: RUF012  (calls by task, of all sessions)

    def reset(self, task: Task) -> Observation:
        self._name, self._calls = task.task_id, 0
        return super().reset(task)

    def step(self, call: ToolCall) -> Observation:
        self._calls += 1
        self.made[self._name] = self.made.get(self._name, 0) + 1
        if self._name in BROKEN and self._calls == 2:
            raise OSError(errno.EIO, "the disk is gone")
        return super().step(call)


def played(environment: Any, tasks: list[Task]) -> list[Trajectory]:
    """Two attempts per task by a policy that omits calls half of the time. Attempts are independent."""
    requests = [
        RolloutRequest(task, 100 * number + sample, step=number // 4, group=number % 4, sample=sample)
        for number, task in enumerate(TASKS)
        for sample in range(2)
        if task in tasks
    ]
    return [one.trajectory for one in rollout(ReferencePolicy(WORLD, 0.5), environment, requests, LIMITS)]


@pytest.fixture(scope="module")
def broken() -> list[Trajectory]:
    return played(Around(BreaksAt), TASKS)


@pytest.fixture(scope="module")
def whole() -> list[Trajectory]:
    return played(WORLD, FINE)


def fails(one: Trajectory) -> bool:
    return one.stop_reason is StopReason.ENVIRONMENT_FAILED


def test_failed_episode_is_recorded_apart_from_finished_ones(broken: list[Trajectory], tmp_path: Path) -> None:
    """Completed and failed episodes stay apart. Observations before the failure are kept."""
    assert {one.task_id for one in broken if fails(one)} <= BROKEN
    assert sum(map(fails, broken)) > 4 and not all(map(fails, broken))
    for one in filter(fails, broken):
        assert "environment failed: OSError" in one.messages[-1]["content"] and one.failure == FailureReason.MACHINE
        assert len(one.calls) == 1  # the second got no answer, and is unresolved
    write_trajectories(tmp_path / "t.parquet", broken)
    assert read_trajectories(tmp_path / "t.parquet") == broken


def test_call_that_may_have_been_executed_is_not_repeated() -> None:
    BreaksAt.made.clear()
    task = next(task for task in TASKS if task.task_id in BROKEN and len(task.calls) > 1)
    [one] = rollout(ReferencePolicy(WORLD), Around(BreaksAt), [RolloutRequest(task, 0)], LIMITS)
    assert fails(one.trajectory)
    assert BreaksAt.made[task.task_id] == 2


def test_failed_episode_is_in_no_attempt(broken: list[Trajectory], whole: list[Trajectory]) -> None:
    unbroken = [one for one in broken if one.task_id not in BROKEN]
    assert unbroken == whole
    counted = [one for one in attempts(broken) if one.task_id not in BROKEN]
    assert counted == attempts(whole)
    assert sum(one.size for one in attempts(broken)) == sum(not fails(one) for one in broken)


def test_failed_episode_gives_no_signal(broken: list[Trajectory], whole: list[Trajectory], tmp_path: Path) -> None:
    survivors = [one for one in broken if not fails(one)]

    def signals(name: str, rows: list[Trajectory]) -> list[Signal]:
        write_trajectories(tmp_path / name, rows)
        config = CONFIG.signals.model_copy(update={"kinds": ["forgetting", "boundary", "rare", "unsolved"]})
        with open_table(tmp_path / name) as table:
            return list(extract(table, 0, config))

    assert signals("broken.parquet", broken) == signals("survivors.parquet", survivors)


def test_failed_visit_is_kept_in_history_and_gives_no_signal(broken: list[Trajectory], tmp_path: Path) -> None:
    def learned(name: str, rows: list[Trajectory], history: list[Attempt]) -> list[Attempt]:
        write_trajectories(tmp_path / f"{name}.parquet", rows)
        write_jsonl(tmp_path / f"{name}.jsonl", history)
        with open_table(tmp_path / f"{name}.parquet", tmp_path / f"{name}.jsonl") as table:
            list(extract(table, 0, CONFIG.signals))
            assert all(visit.attempt.size for visit in table.visits())
            return table.attempts()

    first = learned("first", broken, [])
    assert sorted(first, key=str) == sorted(attempts(broken), key=str)
    failed = {attempt.task_id for attempt in first if not attempt.size}
    assert failed and failed <= BROKEN
    again = learned("second", [replace(one, iteration=1) for one in broken], first)
    assert [attempt for attempt in again if attempt.iteration == 0] == first
    records = recorded({}, again)
    assert set(records) == {task.task_id for task in TASKS}
    assert {name for name, record in records.items() if not record.attempts} == failed


def test_share_of_failed_episodes_is_watched(broken: list[Trajectory]) -> None:
    failed = sum(map(fails, broken))
    found = measure(0, broken, len(WORLD.tools()), [], [], [], [], [], {})
    assert found["environment_failed"] == failed / len(broken)
    (note,) = notes(broken, [], [])
    assert f"{failed} of {len(broken)} " in note and f"({FailureReason.MACHINE}: {failed})" in note
    assert notes([one for one in broken if not fails(one)], [], []) == []

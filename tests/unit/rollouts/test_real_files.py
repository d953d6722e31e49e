"""Files that the real libraries wrote: TRL 1.16.0 and verifiers 0.4.0 ran, verl 0.9.1's own function wrote.

The scripts that made them are in tests/rollouts/made at commit deb5960.
"""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from coevolve.core.io import read_tasks
from coevolve.core.trajectories import Trajectory
from coevolve.rollouts.foreign_trajectories import FAILED, UNSTEPPED, RolloutAccount, trajectories
from coevolve.rollouts.match_tasks import TaskMatch
from coevolve.rollouts.rollout_formats import read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options

MADE = Path(__file__).parent / "made"
KNOWN = read_tasks(MADE / "tasks.jsonl")


def played(source: Path, name: str = "auto") -> tuple[str, list[Trajectory], RolloutAccount, Options]:
    files = rollout_files(source, name)
    account, options = RolloutAccount(), Options()
    found = list(trajectories(read_rollouts(files, options, name), TaskMatch(KNOWN), account))
    return next(iter(options.formats), ""), found, account, options


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    file = tmp_path / "traces.jsonl"
    file.write_bytes(gzip.decompress((MADE / "traces.jsonl.gz").read_bytes()))
    return file


def solves(trajectory: Trajectory) -> bool:
    """Whether the calls equal the reference."""
    task = next(task for task in KNOWN if task.task_id == trajectory.task_id)
    made = [(call.name, call.arguments) for call in trajectory.calls if call.ok]
    return made == [(call.name, call.arguments) for call in task.calls]


def test_verifiers_traces_are_read(traces: Path) -> None:
    name, found, account, _ = played(traces)
    assert name == "verifiers" and len(found) == 19 and not account.skipped
    assert {trajectory.task_id for trajectory in found} == {task.task_id for task in KNOWN}
    *played_to_the_end, failed = found
    assert all(trajectory.score == 1.0 for trajectory in played_to_the_end if solves(trajectory))
    assert {solves(trajectory) for trajectory in played_to_the_end} == {True, False}
    assert failed.failure == "toolset_error" and not failed.counts
    assert (account.notes[FAILED][0], account.notes[UNSTEPPED][0]) == (1, 19), "an evaluation has no training step"
    assert found[0].trajectory_id == "traces.jsonl:1"


@pytest.mark.parametrize("folder", ["trl", "trl_with_id"])
def test_trl_completions_are_read(folder: str) -> None:
    name, found, account, _ = played(MADE / folder)
    assert name == "trl" and len(found) == 16 and not account.skipped and UNSTEPPED not in account.notes
    assert Counter(trajectory.step for trajectory in found) == {1: 8, 2: 8}
    assert {trajectory.task_id for trajectory in found} == {task.task_id for task in KNOWN[:2]}
    assert any(trajectory.score == 1.0 for trajectory in found)
    arguments = [call.arguments for trajectory in found for call in trajectory.calls]
    assert arguments and all(None not in given.values() for given in arguments), "Parquet adds a null for each key"


def test_verl_dumps_are_read() -> None:
    name, found, account, _ = played(MADE / "verl")
    assert name == "verl" and len(found) == 12 and not account.skipped
    assert Counter(trajectory.step for trajectory in found) == {1: 6, 2: 6}
    assert {trajectory.task_id for trajectory in found} == {task.task_id for task in KNOWN[:3]}
    assert all(trajectory.score == 1.0 for trajectory in found if solves(trajectory))
    assert {solves(trajectory) for trajectory in found} == {True, False}
    words = {task.task_id: task.turns[0] for task in KNOWN}
    requests = [
        message["content"] for trajectory in found for message in trajectory.messages if message["role"] == "user"
    ]
    assert requests == [words[trajectory.task_id] for trajectory in found]
    assert [trajectory.messages[-1]["content"][-4:] for trajectory in found] == ["done"] * 12

"""The placebo of studies/placebo-weak: requests of the same form, which do not know where the agent is weak."""

from coevolve.core.records import Signal
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.explore.guidance import guidance
from tests import ROOT
from tests.unit.stages.train.small import WORLD

PLACEBO = str(ROOT / "studies/placebo-weak/placebo.py")
TASKS = WORLD.tasks("seed")[:32]
TOOLS = [tool["function"]["name"] for tool in WORLD.tools()]
ATTEMPTED = TASKS[:12]
SHUFFLED = guidance(PLACEBO).change
assert SHUFFLED


def attempt(task: Task, number: int) -> Trajectory:
    """An attempt at ``task`` without calls. The first attempt succeeds, the others fail."""
    score = float(number == 0)
    return Trajectory(f"{task.task_id}-{number}", task.task_id, 0, 0, 0, number, [], [], score, StopReason.DONE)


ATTEMPTS = [attempt(task, number) for task in ATTEMPTED for number in range(3)]


def of_task(task: Task, strength: float = 1.0) -> Signal:
    shown = [f"{task.task_id}-{number}" for number in range(3)]
    return Signal(f"boundary-{task.task_id}", "boundary", 0, task.task_id, None, strength, {"rate": 0.5}, shown)


def of_pattern(pattern: list[str], task: Task) -> Signal:
    return Signal("rare-" + "-".join(pattern), "rare", 0, None, pattern, 0.5, {}, [f"{task.task_id}-1"])


def test_every_signal_keeps_its_form_and_is_about_another_task_and_other_tools() -> None:
    signals = [*map(of_task, ATTEMPTED), of_task(TASKS[20]), of_pattern(TOOLS[:2], ATTEMPTED[0])]
    moved = SHUFFLED(signals, ATTEMPTS, TOOLS, 0, 0)
    for before, after in zip(signals, moved, strict=True):
        kept = ("signal_id", "kind", "iteration", "strength", "evidence")
        assert all(getattr(before, name) == getattr(after, name) for name in kept)
        assert (before.task_id is None) == (after.task_id is None)
        assert before.task_id is None or before.task_id != after.task_id
        assert not set(before.trajectory_ids) & set(after.trajectory_ids)
        assert all(old != new for old, new in zip(before.pattern or [], after.pattern or [], strict=True))
    tasks = [after.task_id for after in moved if after.task_id]
    assert len(set(tasks)) == len(tasks), "a permutation: no two signals meet at one task"

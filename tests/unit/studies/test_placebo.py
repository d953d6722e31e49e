"""The placebo of studies/placebo-weak: requests of the same form, which do not know where the agent is weak."""

from collections import Counter

from coevolve.core.records import Signal
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.registry import make
from coevolve.stages.explore.guidance import guidance
from coevolve.stages.explore.requests import Request, requests
from coevolve.stages.schema import load
from tests import ROOT

PLACEBO = str(ROOT / "studies/placebo-weak/placebo.py")
WORLD = make("miniworld")
TASKS = WORLD.tasks("seed")[:32]
TOOLS = [tool["function"]["name"] for tool in WORLD.tools()]
CONFIG = load(ROOT / "params.yaml").explore.model_copy(update={"explorations": 64})
ATTEMPTED = TASKS[:12]
SHUFFLED = guidance(PLACEBO).change
assert SHUFFLED


def attempt(task: Task, number: int) -> Trajectory:
    """An attempt at ``task`` without calls; the first attempt succeeds, the others fail."""
    score = float(number == 0)
    return Trajectory(f"{task.task_id}-{number}", task.task_id, 0, 0, 0, number, [], [], score, StopReason.DONE)


ATTEMPTS = [attempt(task, number) for task in ATTEMPTED for number in range(3)]


def of_task(task: Task, strength: float = 1.0) -> Signal:
    shown = [f"{task.task_id}-{number}" for number in range(3)]
    return Signal(f"boundary-{task.task_id}", "boundary", 0, task.task_id, None, strength, {"rate": 0.5}, shown)


def of_pattern(pattern: list[str], task: Task) -> Signal:
    return Signal("rare-" + "-".join(pattern), "rare", 0, None, pattern, 0.5, {}, [f"{task.task_id}-1"])


def requested(name: str, signals: list[Signal], seed: int = 0) -> list[Request]:
    return requests(WORLD, TASKS, ATTEMPTS, signals, CONFIG.model_copy(update={"guidance": name}), 0, seed)


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


def test_requests_have_the_form_of_signals_and_show_a_random_attempt_at_another_task() -> None:
    weak = ATTEMPTED[:3]
    signals = [of_task(task, strength) for task, strength in zip(weak, (1.0, 0.5, 0.25), strict=True)]
    true, placebo = requested("signals", signals), requested(PLACEBO, signals)
    assert len(true) == len(placebo) == 64
    assert {request.task.task_id for request in true} == {task.task_id for task in weak}
    assert all(request.signal and request.failed and request.focus and request.weakness for request in placebo)
    assert {request.signal.signal_id for request in placebo if request.signal} == {one.signal_id for one in signals}
    everywhere = [of_task(task) for task in ATTEMPTED]
    shown = [request for seed in range(10) for request in requested(PLACEBO, everywhere, seed)]
    scores = Counter(request.failed.score for request in shown if request.failed)
    assert 0.2 < scores[1.0] / scores.total() < 0.5, "one attempt of three succeeds"

"""The placebo: requests of the same form, which know nothing of where the agent is weak."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.records import Signal
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.registry import make
from coevolve.stages.explore.placebo import shuffled
from coevolve.stages.explore.requests import Request, requests
from coevolve.stages.schema import load
from tests import ROOT

WORLD = make("miniworld")
TASKS = WORLD.tasks("seed")[:32]
TOOLS = [tool["function"]["name"] for tool in WORLD.tools()]
CONFIG = load(ROOT / "params.yaml").explore.model_copy(update={"explorations": 64})
ATTEMPTED = TASKS[:12]


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


def made(guidance: str, signals: list[Signal], seed: int = 0, iteration: int = 0) -> list[Request]:
    config = CONFIG.model_copy(update={"guidance": guidance})
    return requests(WORLD, TASKS, ATTEMPTS, signals, config, iteration, seed)


@given(
    st.lists(st.sampled_from(ATTEMPTED), min_size=1, unique_by=lambda task: task.task_id),
    st.lists(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=2, unique=True), max_size=5),
    st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_every_signal_keeps_its_form_and_is_about_something_else(
    tasks: list[Task], patterns: list[list[str]], seed: int
) -> None:
    signals = [of_task(task) for task in tasks] + [of_pattern(pattern, ATTEMPTED[0]) for pattern in patterns]
    moved = shuffled(signals, ATTEMPTS, TOOLS, 0, seed)
    for before, after in zip(signals, moved, strict=True):
        kept = ("signal_id", "kind", "iteration", "strength", "evidence")
        assert all(getattr(before, name) == getattr(after, name) for name in kept)
        assert (before.task_id is None) == (after.task_id is None)
        assert len(before.pattern or []) == len(after.pattern or [])
        assert not set(zip(before.pattern or [], after.pattern or [], strict=True)) & {(name, name) for name in TOOLS}
        (shown,) = after.trajectory_ids
        about = next(one.task_id for one in ATTEMPTS if one.trajectory_id == shown)
        assert about not in before.trajectory_ids[0]
        assert after.task_id in (None, about)
    about_tasks = [after.task_id for after in moved if after.task_id]
    assert len(set(about_tasks)) == len(about_tasks), "a permutation: no two signals meet at one task"
    assert shuffled(signals, ATTEMPTS, TOOLS, 0, seed) == moved


def test_the_permutation_differs_between_seeds_and_iterations() -> None:
    signals = [of_task(task) for task in ATTEMPTED]
    found = [
        [signal.task_id for signal in shuffled(signals, ATTEMPTS, TOOLS, iteration, seed)]
        for iteration, seed in ((0, 0), (1, 0), (0, 1))
    ]
    assert len({tuple(one) for one in found}) == 3


def test_requests_have_the_form_of_guidance_by_signals_but_miss_the_weak_tasks() -> None:
    weak = ATTEMPTED[:3]
    signals = [of_task(task, strength) for task, strength in zip(weak, (1.0, 0.5, 0.25), strict=True)]
    true, placebo = made("signals", signals), made("shuffled", signals)
    assert len(true) == len(placebo) == 64
    assert {request.task.task_id for request in true} == {task.task_id for task in weak}
    assert len({request.task.task_id for request in placebo}) == 3
    assert all(request.signal and request.failed and request.focus and request.weakness for request in placebo)
    assert {request.signal.signal_id for request in placebo if request.signal} == {one.signal_id for one in signals}
    others = made("shuffled", signals, seed=1)
    assert {one.task.task_id for one in others} != {one.task.task_id for one in placebo}


def test_its_evidence_is_a_random_attempt_while_signals_show_failures() -> None:
    signals = [of_task(task) for task in ATTEMPTED]
    scores = {
        guidance: Counter(
            request.failed.score for seed in range(10) for request in made(guidance, signals, seed) if request.failed
        )
        for guidance in ("signals", "shuffled")
    }
    assert scores["signals"][1.0] == 0
    share = scores["shuffled"][1.0] / scores["shuffled"].total()
    assert 0.2 < share < 0.5, "one attempt of three succeeds"


def test_a_signal_about_a_task_without_attempts_moves_too() -> None:
    unseen, seen = of_task(TASKS[20]), of_task(ATTEMPTED[0])
    moved = shuffled([unseen, seen], ATTEMPTS, TOOLS, 0, 0)
    assert moved[0].task_id != unseen.task_id and moved[1].task_id != seen.task_id

"""Indicators: each one against hand computation."""

import random
from dataclasses import replace

import pytest

from coevolve.core.outcomes import Outcome, unread
from coevolve.core.records import Attempt, Gate, Verdict
from coevolve.core.stage_summary import FAILURE_IDLE, FAILURE_SUCCESS
from coevolve.core.statistics import evenness
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import UNREAD, StopReason, Trajectory
from coevolve.stages.validate.config import LIMITS
from coevolve.stages.validate.indicators import drift, measure, notes, regressions, stagnant


def call(name: str, ok: bool = True, **arguments: object) -> CallOutcome:
    return CallOutcome(name, dict(arguments), ok)


def task(number: int, *tools: str) -> Task:
    return Task.create("e", "s", [str(number)], {}, [[ToolCall(name) for name in tools]])


def test_entropy_is_one_for_even_use_and_zero_for_one_tool() -> None:
    assert evenness({"a": 5, "b": 5, "c": 5, "d": 5}, 4) == pytest.approx(1.0)
    assert str(evenness({"a": 5}, 4)) == "0.0"
    assert evenness({"a": 5, "b": 5}, 4) == pytest.approx(0.5)
    assert evenness({}, 4) is None
    assert evenness({"a": 5}, 1) is None


def test_drift_is_zero_for_equal_and_one_for_disjoint() -> None:
    assert drift({"a": 1, "b": 3}, {"a": 2, "b": 6}) == pytest.approx(0.0)
    assert drift({"a": 4}, {"b": 9}) == pytest.approx(1.0)
    assert drift({}, {"a": 1}) is None


def visits(name: str, *successes: int) -> list[Attempt]:
    """Visits, two per iteration, each of a group of 8."""
    return [Attempt(name, n // 2, n, count / 8, 8, count) for n, count in enumerate(successes)]


def test_regressions_count_tasks_solved_before_and_visited_now() -> None:
    attempts = [
        *visits("lost", 8, 5, 0),
        *visits("kept", 0, 8, 7),
        *visits("never", 0, 0, 0),
        *visits("before", 8, 0),  # not visited in iteration 1
    ]
    assert regressions(attempts, 1) == 0.5
    assert regressions(list(reversed(attempts)), 1) == 0.5
    assert regressions([], 1) is None


def test_chance_is_no_regression_and_a_collapse_is() -> None:
    rng = random.Random(0)

    def group(chance: float) -> int:
        return sum(rng.random() < chance for _ in range(8))

    for chance in (0.1, 0.3, 0.5, 0.7, 0.9):
        steady = [one for number in range(300) for one in visits(str(number), *(group(chance) for _ in range(6)))]
        assert (regressions(steady, 2) or 0.0) <= 0.05, chance
        gone = [replace(one, successes=0) if one.step == 5 else one for one in steady]
        assert (regressions(gone, 2) or 0.0) >= (0.25 if chance >= 0.3 else 0.0), chance


def test_lucky_successes_are_no_progress() -> None:
    def visits(name: str, *solved: int) -> list[Attempt]:
        return [Attempt(name, n // 2, n, count / 4, 4, count) for n, count in enumerate(solved)]

    rising = [one for n in range(6) for one in visits(f"up{n}", 2, 1, 3)]
    lucky = [one for n in range(3) for one in visits(f"luck{n}", 2, 4, 2 - n)]
    others = [
        *visits("other", 1, 1, 1),  # not made by the loop
        *visits("once", 1),
        Attempt("new", 1, 9, 0.5, 4, 2),
        *visits("twice", 1, 1),
        *visits("sure", 4, 4, 4),
        *visits("never", 0, 0, 0),
        *visits("before", 1, 1, 1, 1),
        Attempt("before", 0, 9, 1.0, 4, 4),  # last visited in iteration 1 all the same
    ]
    made = {one.task_id for one in [*rising, *lucky, *others]} - {"other", "before"}
    assert stagnant([*rising, *lucky, *others], 1, made) == pytest.approx(3 / 9)
    assert stagnant([*reversed(rising), *lucky, *others], 1, made) == pytest.approx(3 / 9)
    assert stagnant([*rising, *lucky, *others], 1, made | {"before"}) == pytest.approx(4 / 10)
    assert stagnant([*rising, *lucky], 0, made) is None, "none was visited last in iteration 0"
    assert stagnant(rising, 1, made) is None, "six are too few"
    more = [Attempt(one.task_id, 1, 9, 1.0, 8, 4) for one in visits("x", 2)]
    assert stagnant([*rising, *lucky, *visits("x", 2, 0), *more], 1, made | {"x"}) == pytest.approx(4 / 10), "by shares"


def attempt(
    group: int, *calls: CallOutcome, stop_reason: StopReason = StopReason.DONE, tokens: int = 1, said: str = ""
) -> Trajectory:
    answer = [{"role": "assistant", "content": said}, {"role": "tool", "content": f"{UNREAD}no JSON"}] if said else []
    return Trajectory("", "t", 0, 0, group, 0, answer, list(calls), 0.0, stop_reason, [1] * tokens)


def test_indicators_of_an_iteration_match_hand_computation() -> None:
    episodes = [
        *(attempt(0, call("a", x=1)), attempt(0, call("a", x=1)), attempt(0, call("a", x=2))),  # one of two repeats
        *(attempt(1), attempt(1, call("b", ok=False), said="<b>", tokens=5), attempt(1, call("b", y=1))),
        attempt(1, call("c"), stop_reason=StopReason.ENVIRONMENT_FAILED, tokens=0),
    ]
    last = {"groups": 5.0, "groups_without_variance": 3.0, "margin": 1.5, "chosen": -0.5}
    steps = [{"groups": 3.0, "groups_without_variance": 1.0}, last]
    repeat = Verdict("c", "t", False, [Gate("duplicate", True), Gate("near_duplicate", False)])
    verdicts = [repeat, Verdict("d", "u", True, [Gate("x", True)])]
    figures = {FAILURE_IDLE: 0.4, FAILURE_SUCCESS: None}
    found = measure(0, episodes, 4, steps, [], [task(1, "a")], [task(2, "b")], verdicts, figures)
    assert {*found, "refused", "tasks", "largest_family"} == set(LIMITS)
    assert [found[name] for name in ("failure_idle", "failure_success", "failure_distinct")] == [0.4, None, None]
    assert (found["margin"], found["chosen"]) == (1.5, -0.5)  # of the last step
    assert found["duplicate_trajectories"] == 0.25  # of four attempts after the first of their group, one
    assert found["duplicate_tasks"] == 0.5
    assert found["zero_variance"] == 0.5
    assert found["regressions"] is None
    assert found["environment_failed"] == pytest.approx(1 / 7)
    assert found["unreadable"] == pytest.approx(1 / 10)
    assert found["drift"] == pytest.approx(drift({"a": 1}, {"a": 1, "b": 1}))
    assert found["action_entropy"] == pytest.approx(evenness({"a": 3, "b": 1}, 4))


def test_unreadable_replies_are_noted_only_if_there_are_many() -> None:
    """Any agent errs now and then; a broken form of calls is another matter."""
    wrong = [attempt(0, said="<pay>", tokens=5), attempt(0, said="<pay")]
    assert notes([*wrong, attempt(1, tokens=34)], [], []) == []
    assert notes([*wrong, attempt(1, tokens=33)], [], []) == [
        "2 of 39 replies (5%) hold a call that cannot be read; the first: '<pay>'"
    ]
    played = [Outcome("validation", "t", "f", 0.0, False, "done", 20, 9, {}, one, "<pay>") for one in (1, 1)]
    assert unread(played) == []
    assert unread([*played, replace(played[0], turns=19)])[0].startswith("3 of 59 replies (5%)")


def test_attempts_that_the_environment_failed_repeat_nothing() -> None:
    failed = StopReason.ENVIRONMENT_FAILED
    episodes = [
        *(attempt(0, call("a")), attempt(0, stop_reason=failed), attempt(0, call("b"), stop_reason=failed)),
        *(attempt(1, stop_reason=failed), attempt(1, stop_reason=failed)),
        *(attempt(2, call("a")), attempt(2, stop_reason=failed)),
    ]
    found = measure(0, episodes, 4, [], [], [], [], [], {})
    assert found["duplicate_trajectories"] is None and found["action_entropy"] == 0.0
    assert found["environment_failed"] == pytest.approx(5 / 7)
    broken = attempt(2, stop_reason=StopReason.BROKEN)
    assert measure(0, [*episodes, broken], 4, [], [], [], [], [], {})["duplicate_trajectories"] == 0.0


def test_tasks_without_any_counted_episode_are_named() -> None:
    def visits(number: int, *sizes: int) -> list[Attempt]:
        return [Attempt(task(number).task_id, 0, step, 0.0, size) for step, size in enumerate(sizes)]

    tasks = [task(number) for number in range(10)]
    once = [*visits(0, 0), *visits(1, 0, 8, 0), *visits(2, 8)]
    assert notes([], once, tasks) == []
    (note,) = notes([], [*once, *visits(3, 0, 0), *visits(99, 0, 0)], tasks)
    assert note.endswith(f"of 1 tasks, in 2 visits or more: {tasks[3].task_id}")
    (note,) = notes([], [one for number in range(9) for one in visits(number, 0, 0, 0)], tasks)
    assert "of 9 tasks" in note and note.endswith(" and 4 more") and tasks[4].task_id in note

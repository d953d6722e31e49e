"""Watchdogs: each indicator against hand computation, and the limits."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json
from coevolve.core.records import Attempt, Gate, Verdict
from coevolve.core.stage_summary import FAILURE_IDLE, FAILURE_SUCCESS
from coevolve.core.statistics import evenness
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.schema import load
from coevolve.stages.watch.watchdogs import (
    MEANING,
    calls_by_group,
    drift,
    foreign,
    indicators,
    measure,
    never_counted,
    read_indicators,
    regressions,
    stagnant,
    summary,
)
from tests import ROOT

CONFIG = load(ROOT / "params.yaml").watch


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


def test_indicators_of_an_iteration_match_hand_computation() -> None:
    groups = [
        [[call("a", x=1)], [call("a", x=1)], [call("a", x=2)]],  # one of two repeats
        [[], [call("b", ok=False)], [call("b", y=1)]],
    ]
    last = {"groups": 5.0, "groups_without_variance": 3.0, "margin": 1.5, "chosen": -0.5}
    steps = [{"groups": 3.0, "groups_without_variance": 1.0}, last]
    repeat = Verdict("c", "t", False, [Gate("duplicate", True), Gate("near_duplicate", False)])
    ends = [StopReason.DONE] * 4 + [StopReason.BROKEN, StopReason.ENVIRONMENT_FAILED]
    found = measure(
        groups,
        ends,
        4,
        steps,
        [],
        0,
        [task(1, "a")],
        [task(2, "b")],
        [repeat, Verdict("d", "u", True, [Gate("x", True)])],
        {FAILURE_IDLE: 0.4, FAILURE_SUCCESS: None},
    )
    assert [found[name] for name in ("failure_idle", "failure_success", "failure_distinct")] == [0.4, None, None]
    assert (found["margin"], found["chosen"]) == (1.5, -0.5)  # of the last step
    assert found["duplicate_trajectories"] == 0.25  # of four attempts after the first of their group, one
    assert found["duplicate_tasks"] == 0.5
    assert found["zero_variance"] == 0.5
    assert found["regressions"] is None
    assert found["environment_failed"] == pytest.approx(1 / 6)
    assert found["drift"] == pytest.approx(drift({"a": 1}, {"a": 1, "b": 1}))
    assert found["action_entropy"] == pytest.approx(evenness({"a": 3, "b": 1}, 4))


def test_groups_hold_only_counted_attempts() -> None:
    def attempt(group: int, stop_reason: StopReason, *calls: CallOutcome) -> Trajectory:
        return Trajectory("", "t", 0, 0, group, 0, [], list(calls), 0.0, stop_reason)

    done, failed = StopReason.DONE, StopReason.ENVIRONMENT_FAILED
    trajectories = [
        *(attempt(0, done, call("a")), attempt(0, failed), attempt(0, failed, call("b"))),
        *(attempt(1, failed), attempt(1, failed)),
        *(attempt(2, done, call("c")), attempt(2, failed), attempt(2, StopReason.BROKEN)),
    ]
    groups = list(calls_by_group(trajectories))
    assert groups == [[[call("a")]], [[call("c")], []]]
    reasons = [trajectory.stop_reason for trajectory in trajectories]
    found = measure(groups[:1], reasons, 4, [], [], 0, [], [], [], {})
    assert found["duplicate_trajectories"] is None and found["action_entropy"] == 0.0
    assert found["environment_failed"] == pytest.approx(5 / 8)


def test_limits_warn_and_critical_limits_stop() -> None:
    values = {name: 0.5 for name, _ in CONFIG} | {"action_entropy": 0.3, "drift": 0.61, "regressions": None}
    states = {one.name: one.state for one in indicators(values, CONFIG)}
    assert states["action_entropy"] == "limit"
    assert states["drift"] == "critical"
    assert states["regressions"] == "unknown"
    assert states["zero_variance"] == "ok"
    assert "drift 0.61 is above 0.6" in str(next(one for one in indicators(values, CONFIG) if one.name == "drift"))
    assert indicators(values | {"action_entropy": 0.1}, CONFIG)[0].state == "critical"
    assert (
        indicators(values | {"duplicate_trajectories": 1.0}, CONFIG)[1].state == "limit"
    )  # critical: null never stops


def test_tasks_without_any_counted_episode_are_named() -> None:
    def visits(number: int, *sizes: int) -> list[Attempt]:
        return [Attempt(task(number).task_id, 0, step, 0.0, size) for step, size in enumerate(sizes)]

    tasks = [task(number) for number in range(10)]
    once = [*visits(0, 0), *visits(1, 0, 8, 0), *visits(2, 8)]
    assert never_counted(once, tasks) == []
    (note,) = never_counted([*once, *visits(3, 0, 0), *visits(99, 0, 0)], tasks)
    assert note.endswith(f"of 1 tasks, in 2 visits or more: {tasks[3].task_id}")
    (note,) = never_counted([one for number in range(9) for one in visits(number, 0, 0, 0)], tasks)
    assert "of 9 tasks" in note and note.endswith(" and 4 more") and tasks[4].task_id in note
    assert note in summary(0, [], [note]).notes


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ((False, True, False), 10),  # CoEvolve, by GRPO
        ((False, True, True), 13),  # GenEnv
        ((True, True, False), 15),  # Co-Evolving Agents
        ((True, False, False), 12),  # pairs without a failure agent
        ((True, True, True), 18),
    ],
)
def test_run_shows_only_its_own_watchdogs(run: tuple[bool, bool, bool], shown: int) -> None:
    values = dict.fromkeys(MEANING, 0.0)
    names = [indicator.name for indicator in indicators(values, CONFIG, foreign(*run))]
    assert len(names) == shown and names[:10] == list(MEANING)[:10]
    assert any(name.startswith("generator_") for name in names) == run[2]
    assert ("failure_idle" in names) == (run[0] and run[1])


def test_indicators_are_read_back_as_written(tmp_path: Path) -> None:
    measured = indicators(dict.fromkeys(MEANING, 0.25), CONFIG)
    write_json(tmp_path / "watch.json", {one.name: one.as_dict() for one in measured})
    assert read_indicators(tmp_path / "watch.json") == measured


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"luck": {"value": 0.5, "limit": 1.0, "critical": None}}, "unknown indicator 'luck'"),
        ({"drift": {"limit": 1.0, "critical": None}}, "drift: value: Field required"),
        ({"drift": {"value": "high", "limit": 1.0, "critical": None}}, "drift: value: "),
        ({"drift": 5}, "drift: "),
    ],
)
def test_invalid_indicator_is_a_one_line_error(tmp_path: Path, content: Any, reason: str) -> None:
    write_json(tmp_path / "watch.json", content)
    with pytest.raises(CoevolveError, match=reason) as caught:
        read_indicators(tmp_path / "watch.json")
    assert str(caught.value).startswith(f"{tmp_path}/watch.json: ") and "\n" not in str(caught.value)

"""The rules against brute-force oracles that follow the definitions literally."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Attempt
from coevolve.stages.signals.boundary import Boundary, boundary
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.forgetting import Forgetting
from coevolve.stages.signals.kind import Firing
from coevolve.stages.signals.rare import rare
from coevolve.stages.signals.table import Visit
from coevolve.stages.signals.unsolved import Unsolved

scores = st.lists(st.sampled_from([0.0, 0.25, 0.4999, 0.5, 0.75, 1.0]), max_size=30)
names = st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=12)


def forgotten(values: Sequence[float], window: int, history: int = 0) -> Firing | None:
    """The finding of forgetting for visits with these scores. The first ``history`` visits precede the iteration."""
    rule = Forgetting(Signals(window=window, rare_threshold=2.0, kinds=["forgetting"]))
    for step, score in enumerate(values):
        rule.see(Visit(Attempt("task", 0, step, score), step >= history, [f"failed{step}"], [f"passed{step}"]))
    return rule.finding()


@given(scores, st.integers(2, 12), st.integers(0, 3))
def test_forgetting_is_a_success_in_the_window_and_a_failure_now(
    values: list[float], window: int, history: int
) -> None:
    expected = []
    for now in range(history, len(values)):
        seen = values[max(0, now - window + 1) : now + 1]
        if any(score >= 0.5 for score in seen[:-1]) and seen[-1] < 0.5:
            expected.append(now)
    finding = forgotten(values, window, history)
    assert (finding is None) == (not expected)
    if finding is not None:
        assert finding.evidence["firings"] == len(expected)
        assert finding.evidence["visits"] == len(values) - history
        last = expected[-1]
        assert finding.evidence["steps"] == [[0, step] for step in range(max(0, last - window + 1), last + 1)]
        assert finding.evidence["scores"] == values[max(0, last - window + 1) : last + 1]


def test_forgetting_matches_hand_computation() -> None:
    finding = forgotten([1, 0, 0, 0], 3)
    assert finding is not None
    assert finding.evidence == {"window": 3, "scores": [1, 0, 0], "steps": [[0, 0], [0, 1], [0, 2]], "firings": 2, "visits": 4}  # fmt: skip
    assert (finding.weakness, finding.trajectory_ids) == (1.0, ["failed2", "passed1"])
    assert forgotten([0.5, 0.49], 2) is not None
    assert forgotten([0, 0], 2) is None
    assert forgotten([1, 0], 2, history=2) is None


def unsolved(groups: Sequence[tuple[int, int]], current: int) -> Firing | None:
    """The finding of unsolved for visits of (size, successes). The last ``current`` visits are of this iteration."""
    rule = Unsolved(Signals(window=2, rare_threshold=2.0, kinds=["unsolved"]))
    for step, (size, successes) in enumerate(groups):
        attempt = Attempt("task", 0, step, successes / size, size, successes)
        rule.see(Visit(attempt, step >= len(groups) - current, [f"failed{step}"], [f"passed{step}"]))
    return rule.finding()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 1)), max_size=5), st.integers(0, 5))
def test_unsolved_is_no_success_in_eight_episodes_of_two_visits(groups: list[tuple[int, int]], current: int) -> None:
    episodes = sum(size for size, _ in groups[-2:])
    solved = any(successes for _, successes in groups[-2:])
    finding = unsolved(groups, current)
    assert (finding is not None) == (bool(groups) and current > 0 and not solved and episodes >= 8)
    if finding is not None:
        assert finding.evidence["episodes"] == episodes
        assert (1 - finding.evidence["bound"]) ** episodes == pytest.approx(0.05)
        assert finding.weakness == 1 - finding.evidence["bound"]


def test_unsolved_matches_hand_computation() -> None:
    finding = unsolved([(8, 8), (8, 0), (8, 0)], 1)
    assert finding is not None and finding.trajectory_ids == ["failed2"]
    assert finding.evidence == {
        "episodes": 16, "bound": pytest.approx(0.1707, abs=1e-4), "scores": [0.0, 0.0], "steps": [[0, 1], [0, 2]]
    }  # fmt: skip


def test_successful_mean_is_a_success_if_the_history_has_no_counts() -> None:
    rule = Unsolved(Signals(window=2, rare_threshold=2.0, kinds=["unsolved"]))
    rule.see(Visit(Attempt("task", 0, 0, 0.9), False))
    rule.see(Visit(Attempt("task", 1, 0, 0.0, 8, 0), True))
    assert rule.finding() is None


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_boundary_is_both_outcomes_in_one_group(outcomes: list[bool]) -> None:
    assert boundary(len(outcomes), sum(outcomes)) == (True in outcomes and False in outcomes)


def test_boundary_strength_is_the_failure_rate_of_the_latest_visit() -> None:
    rule = Boundary(Signals(window=2, rare_threshold=2.0, kinds=["boundary"]))
    for step, successes in enumerate((4, 1, 3, 0)):
        rule.see(Visit(Attempt("task", 0, step, successes / 4, 4, successes), True, [f"failed{step}"], ["passed"]))
        finding = rule.finding()
        if step == 0:
            assert finding is None
            continue
        assert finding is not None
        assert finding.weakness == 1.0 - successes / 4
    assert finding is not None
    assert finding.trajectory_ids == ["failed2", "passed"]
    assert (finding.evidence["mixed"], finding.evidence["steps"]) == (2, [[0, 1], [0, 2]])


@given(names, st.integers(1, 2), st.sampled_from([0.0, 1.0, 10.0, 25.0, 50.0, 100.0]))
def test_rare_is_present_and_below_theta_percent(calls: list[list[str]], order: int, threshold: float) -> None:
    every = [tuple(t[i : i + order]) for t in calls for i in range(len(t)) if i + order <= len(t)]
    expected = {p for p in every if every.count(p) > 0 and every.count(p) * 100 < threshold * len(every)}
    found = rare(Counter(every), threshold)
    assert set(found) == expected and len(found) == len(expected)
    assert found == sorted(found, key=lambda p: (every.count(p), p))


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_tie_is_decided_by_the_written_decimal(total: int, hundredths: int) -> None:
    """Against exact arithmetic, for every theta of two digits and every count around a tie."""
    theta = Fraction(hundredths, 10_000)  # a share
    tie = int(theta * total)
    for count in range(max(tie - 1, 1), min(tie + 2, total) + 1):
        counts = {("a",): count, **({("b",): total - count} if count < total else {})}
        assert (("a",) in rare(counts, hundredths / 100)) == (Fraction(count, total) < theta)


def test_share_of_exactly_theta_is_not_rare() -> None:
    assert rare({("a",): 2, ("b",): 98}, 2.0) == []
    assert rare({("a",): 7, ("b",): 2493}, 0.28) == []
    assert rare({("a",): 2, ("b",): 99}, 2.0) == [("a",)]

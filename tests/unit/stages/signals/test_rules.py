"""The rules against the definitions, by hand and by brute force. test_table.py has an oracle for whole files."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Attempt
from coevolve.stages.signals.boundary import Boundary
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.forgetting import Forgetting
from coevolve.stages.signals.kind import Firing
from coevolve.stages.signals.rare import rare
from coevolve.stages.signals.table import Visit
from coevolve.stages.signals.unsolved import Unsolved


def forgotten(values: Sequence[float], window: int, history: int = 0) -> Firing | None:
    """The finding of forgetting for visits with these scores. The first ``history`` visits precede the iteration."""
    rule = Forgetting(Signals(window=window, rare_threshold=2.0, kinds=["forgetting"]))
    for step, score in enumerate(values):
        rule.see(Visit(Attempt("task", 0, step, score), step >= history, [f"failed{step}"], [f"passed{step}"]))
    return rule.finding()


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


def test_successful_mean_is_a_success_if_the_history_has_no_counts() -> None:
    rule = Unsolved(Signals(window=2, rare_threshold=2.0, kinds=["unsolved"]))
    rule.see(Visit(Attempt("task", 0, 0, 0.9), False))
    rule.see(Visit(Attempt("task", 1, 0, 0.0, 8, 0), True))
    assert rule.finding() is None


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


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_tie_is_decided_by_the_written_decimal(total: int, hundredths: int) -> None:
    """Against exact arithmetic, for every theta of two digits and every count around a tie."""
    theta = Fraction(hundredths, 10_000)  # a share
    tie = int(theta * total)
    for count in range(max(tie - 1, 1), min(tie + 2, total) + 1):
        counts = {("a",): count, **({("b",): total - count} if count < total else {})}
        assert (("a",) in rare(counts, hundredths / 100)) == (Fraction(count, total) < theta)

"""Attempts, and the shapes, the posterior and the bound that rest on them, against computation by hand."""

import math
from pathlib import Path

import pytest

from coevolve.core.attempts import attempt_of, read_attempts, read_visits
from coevolve.core.io import write_jsonl
from coevolve.core.learnability import KEPT, SHAPES, Record, bell, ceiling, learnability, recorded
from coevolve.core.records import Attempt


@pytest.mark.parametrize(
    ("name", "never", "half", "always", "quarter"),
    [("bell", math.exp(-2.0), 1.0, math.exp(-2.0), math.exp(-0.5)), ("variance", 0.0, 1.0, 0.0, 0.75)],
)
def test_shapes_have_their_values_at_known_rates(
    name: str, never: float, half: float, always: float, quarter: float
) -> None:
    found = [SHAPES[name](p) for p in (0.0, 0.5, 1.0, 0.25)]
    assert found == pytest.approx([never, half, always, quarter])


def test_bell_peaks_at_alpha() -> None:
    assert bell(0.7, alpha=0.7, beta=2.0) == 1.0
    assert bell(0.2, alpha=0.7, beta=2.0) == pytest.approx(math.exp(-0.5))


def test_posterior_of_the_success_rate() -> None:
    assert Record().chance == 0.5
    assert Record(3, 8).chance == pytest.approx(0.4)
    assert Record(8, 8).chance == 1 - Record(0, 8).chance


@pytest.mark.parametrize(("attempts", "bound"), [(0, 1.0), (1, 0.95), (8, 0.31234), (16, 0.17075), (32, 0.08937)])
def test_upper_bound_for_unsolved_tasks(attempts: int, bound: float) -> None:
    assert ceiling(attempts) == pytest.approx(bound, abs=1e-5)
    assert (1 - ceiling(attempts)) ** attempts == pytest.approx(0.05 if attempts else 1.0)


def test_visit_with_a_failed_environment_changes_no_statistic() -> None:
    attempts = [Attempt("a", 0, 0, 0.5, 8, 4), Attempt("b", 0, 1, 1.0, 8, 8)]
    failed = [Attempt("a", 0, 2, 0.0, 0), Attempt("c", 0, 2, 0.0, 0)]
    found = recorded({}, [*attempts, *failed])
    assert found == {**recorded({}, attempts), "c": Record()}
    assert learnability(found) == learnability(recorded({}, attempts))
    assert learnability(recorded({}, failed)) is None


def test_earlier_attempts_weigh_less() -> None:
    attempts = [Attempt("a", 0, 3, 0.5, 8, 4), Attempt("a", 1, 0, 1.0, 8, 8), Attempt("b", 1, 0, 0.0, 6, 0)]
    found = recorded({}, attempts)
    assert found == {"a": Record(4 * KEPT + 8, 8 * KEPT + 8), "b": Record(0, 6)}
    assert recorded(recorded({}, attempts[:1]), attempts[1:]) == found, (
        "a resumed run knows what an uninterrupted one does"
    )
    assert learnability(found) == pytest.approx((4 * 11 / 14 * 3 / 14 + 4 * 1 / 8 * 7 / 8) / 2)
    assert learnability({}) is None


def test_attempts_are_read_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    made = [Attempt(f"t{n}", n // 3, n % 3, 0.5) for n in range(6)]
    write_jsonl(tmp_path / "attempts.jsonl", [made[n] for n in (4, 0, 5, 2, 1, 3)])
    assert read_attempts(tmp_path / "attempts.jsonl") == made


def test_visit_without_counted_episodes_is_no_attempt(tmp_path: Path) -> None:
    counted, failed = attempt_of("a", 0, 1, [1.0, 0.0]), attempt_of("b", 0, 0, [])
    assert (failed.score, failed.size, failed.successes) == (0.0, 0, 0)
    write_jsonl(tmp_path / "attempts.jsonl", [counted, failed])
    assert read_attempts(tmp_path / "attempts.jsonl") == [counted]
    assert read_visits(tmp_path / "attempts.jsonl") == [failed, counted]

"""A loop without any success or signal stops in its first iteration and names the ways out."""

import pytest

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.stages.signals.stage import check_start

FAILED = [attempt_of("a", 0, 0, [0.0, 0.0]), attempt_of("b", 0, 1, [0.0, 0.4])]
SOLVED = attempt_of("a", 0, 2, [0.0, 1.0])


def test_no_success_and_no_signal_is_a_one_line_error() -> None:
    with pytest.raises(CoevolveError, match="solved none of 2 tasks and no signal fired") as caught:
        check_start(0, 0, FAILED)
    assert all(way in str(caught.value) for way in ("base.model", "warm.steps", "signals.kinds"))
    assert "\n" not in str(caught.value)


def test_success_or_signal_or_later_iteration_continues() -> None:
    check_start(0, 0, [*FAILED, SOLVED])
    check_start(0, 1, FAILED)
    check_start(1, 0, FAILED)
    check_start(0, 0, [])

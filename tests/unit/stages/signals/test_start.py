"""A loop with nothing to go on stops in its first iteration and names the ways on."""

import pytest

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.stages.signals.stage import check_start

FAILED = [attempt_of("a", 0, 0, [0.0, 0.0]), attempt_of("b", 0, 1, [0.0, 0.4])]
SOLVED = attempt_of("a", 0, 2, [0.0, 1.0])


def test_no_success_and_no_signal_is_one_line() -> None:
    with pytest.raises(CoevolveError, match="solved none of 2 tasks and no signal fired") as caught:
        check_start(0, 0, FAILED)
    assert all(way in str(caught.value) for way in ("base.model", "warm.steps", "signals.kinds"))
    assert "\n" not in str(caught.value)


def test_a_success_a_signal_or_a_later_iteration_goes_on() -> None:
    check_start(0, 0, [*FAILED, SOLVED])
    check_start(0, 1, FAILED)
    check_start(1, 0, FAILED)
    check_start(0, 0, [])

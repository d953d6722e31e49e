"""Running time: how much of a stall of the process counts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.deadline import TICK, Deadline

GAPS = st.lists(st.floats(0.0, 1e6), max_size=60)


@given(st.floats(0.01, 100.0), GAPS)
def test_clock_gap_counts_as_one_tick_at_most(seconds: float, gaps: list[float]) -> None:
    now = [0.0]
    deadline = Deadline(seconds, lambda: now[0])
    counted = 0.0
    for gap in gaps:
        before, now[0] = now[0], now[0] + gap
        counted += min(now[0] - before, TICK)
        tick = deadline.tick()
        assert 0.0 <= tick <= TICK
        assert math.isclose(tick, max(min(seconds - counted, TICK), 0.0), abs_tol=1e-9)
    deadline.restart()
    assert deadline.tick() == min(seconds, TICK)

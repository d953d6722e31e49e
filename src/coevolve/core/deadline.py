"""Deadlines in running time, so that a stalled machine does not look like a call that never ends."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

TICK = 0.1  # seconds: the longest wait, and the most that one wait counts


class Deadline:
    """``seconds`` of running time from now on.

    Callers wait in ticks, and a tick counts at most ``TICK`` seconds. Time in which this process did not run, because it
    was stopped or its machine slept, does not count.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self.restart()

    def restart(self) -> None:
        self._left, self._last = self._seconds, self._clock()

    def tick(self) -> float:
        """The seconds until the next tick; 0 if the deadline has passed."""
        now = self._clock()
        self._left -= min(now - self._last, TICK)
        self._last = now
        return max(min(self._left, TICK), 0.0)


@asynccontextmanager
async def within(deadline: Deadline) -> AsyncIterator[Callable[[], object]]:
    """A block that ends in a TimeoutError when ``deadline`` has passed, unless it calls the yielded function first."""
    import asyncio

    from anyio import CancelScope

    async def watch() -> None:
        while tick := deadline.tick():
            await asyncio.sleep(tick)
        scope.cancel()

    with CancelScope() as scope:
        watching = asyncio.create_task(watch())
        try:
            yield watching.cancel
        finally:
            watching.cancel()
    if scope.cancelled_caught:
        raise TimeoutError

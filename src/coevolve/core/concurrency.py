"""Work on many items at once, with results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(action: Callable[[Item], Result], items: Sequence[Item], concurrency: int) -> Iterator[Result]:
    """Apply ``action`` to every item in threads, ``concurrency`` at a time, and yield the results in order.

    After an error, an interrupt, or a reader that stops early, no further item starts.
    """
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="in-order")
    waiting: deque[Future[Result]] = deque()
    left = iter(items)
    try:
        for item in left:
            waiting.append(pool.submit(action, item))
            if len(waiting) >= concurrency:
                break
        while waiting:
            result = waiting.popleft().result()
            for item in left:
                waiting.append(pool.submit(action, item))
                break
            yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)

"""Work on many items at the same time, with results in order."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(action: Callable[[Item], Result], items: Sequence[Item], concurrency: int) -> Iterator[Result]:
    """Apply ``action`` to every item in threads, ``concurrency`` at a time, and yield the results in order.

    After an error, an interrupt, or a reader that stops early, no further item starts.
    """
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="in-order")
    try:
        yield from pool.map(action, items)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Threads:
    """Threads that run jobs, at most ``count`` at the same time. A job that never ends does not keep the process alive.

    An executor's threads would keep it alive: the interpreter waits for them when it exits.
    """

    def __init__(self, count: int, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Future[None], Callable[[], None]] | None] = SimpleQueue()
        self._lock = Lock()
        self._started, self._left = 0, count  # threads that run, and threads that may still start

    def submit(self, job: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()
        self._jobs.put((future, job))
        self._start(1)
        return future

    def replace(self, lost: int) -> None:
        """Start new threads for ``lost`` threads whose jobs do not end."""
        with self._lock:
            self._left += lost
        self._start(lost)

    def close(self) -> None:
        """Start no further job. Every thread ends after its current job."""
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        for _ in range(self._started):
            self._jobs.put(None)

    def _start(self, wanted: int) -> None:
        with self._lock:
            starting = min(wanted, self._left)
            self._left -= starting
            self._started += starting
        for _ in range(starting):
            Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            try:
                future.set_running_or_notify_cancel()
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

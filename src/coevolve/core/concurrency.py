"""Work on many items at the same time, with results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
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
    """Threads that each run their own jobs in order, together at most ``count`` jobs at the same time.

    A job that never ends does not keep the process alive. An executor could give a job to any of its threads, and the
    interpreter would wait for them when it exits.
    """

    def __init__(self, count: int, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._free = count
        self._waiting: deque[Callable[[], None]] = deque()  # each starts a job
        self._idle: list[OwnThread] = []

    def take(self) -> "OwnThread":
        """A thread for one user, who returns it by ``give``."""
        with self._lock:
            return self._idle.pop() if self._idle else OwnThread(self, self._name)

    def give(self, thread: "OwnThread") -> None:
        """Take ``thread`` back. If its job does not end, no one gets it again."""
        if thread.given_up:
            thread.end()
        else:
            self._idle.append(thread)

    def close(self) -> None:
        """End all threads that were given back, each after its current job."""
        for thread in self._idle:
            thread.end()

    def enter(self, start: Callable[[], None]) -> None:
        """Call ``start`` as soon as fewer than ``count`` jobs run."""
        with self._lock:
            if not self._free:
                self._waiting.append(start)
                return
            self._free -= 1
        start()

    def leave(self) -> None:
        """A job has ended, or never ends and is given up."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            start = self._waiting.popleft()
        start()


class OwnThread:
    """One of ``Threads``."""

    def __init__(self, threads: Threads, name: str) -> None:
        self._threads = threads
        self.given_up = False
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Callable[[], Result]) -> "Future[Result]":
        future: Future[Result] = Future()
        self._threads.enter(partial(self._jobs.put, partial(_run, future, job)))
        return future

    def give_up(self) -> None:
        """Let another thread's job run in place of the current one, which does not end."""
        self.given_up = True
        self._threads.leave()

    def end(self) -> None:
        """Start no further job."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            if not self.given_up:
                self._threads.leave()


def _run(future: "Future[Result]", job: Callable[[], Result]) -> None:
    future.set_running_or_notify_cancel()
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)

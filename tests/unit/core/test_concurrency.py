import threading

from coevolve.core.concurrency import Threads
from tests.waiting import until


def test_thread_with_an_endless_job_is_replaced() -> None:
    threads, done = Threads(2, "test"), []
    stuck = [threads.submit(lambda: threading.Event().wait() and None) for _ in range(2)]
    later = [threads.submit(lambda number=number: done.append(number)) for number in range(5)]  # type: ignore[misc]
    until(lambda: all(future.running() for future in stuck), "the jobs do not begin")
    assert not any(future.running() or future.done() for future in later)
    threads.replace(1)
    until(lambda: len(done) == 5, "nothing runs in place of what is stuck")
    threads.close()

"""Threads of which each belongs to one user, and jobs that never end."""

import threading

from coevolve.core.concurrency import Threads
from tests.waiting import PATIENCE, until


def test_thread_with_an_endless_job_is_given_up_and_its_room_used_again() -> None:
    threads, done = Threads(2, "test"), []
    stuck = [threads.take() for _ in range(2)]
    endless = [thread.submit(threading.Event().wait) for thread in stuck]
    more = [threads.take() for _ in range(5)]
    later = [thread.submit(lambda number=number: done.append(number)) for number, thread in enumerate(more)]  # type: ignore[misc]
    until(lambda: all(future.running() for future in endless), "the jobs do not begin")
    assert not any(future.running() or future.done() for future in later)
    stuck[0].give_up()
    until(lambda: len(done) == 5, "nothing runs in place of what is stuck")
    for thread in (*stuck, *more):
        threads.give(thread)
    assert threads.take() not in (stuck[0],)
    threads.close()


def test_jobs_of_a_thread_run_in_it_in_order() -> None:
    threads = Threads(3, "test")
    users = [threads.take() for _ in range(8)]
    names = [[user.submit(threading.get_ident) for _ in range(4)] for user in users]
    found = [{future.result(PATIENCE) for future in futures} for futures in names]
    assert all(len(one) == 1 for one in found) and len(set.union(*found)) == 8
    threads.close()

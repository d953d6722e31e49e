"""Work in several processes: errors come back as they are, and a process that dies is noticed, named and replaced."""

import os
import signal

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import VARIABLE, Worker, WorkerDied, Workers, available


class Helper:
    """What a process holds."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def add(self, number: int) -> int:
        return self._offset + number

    def refuse(self) -> None:
        raise CoevolveError("params.yaml: no")

    def fail(self) -> None:
        raise ValueError("by mistake")

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_results_are_in_order_and_a_process_that_died_is_replaced() -> None:
    with Workers(2, Helper, 100) as workers:
        assert list(workers.map(lambda number: workers.call("add", number), range(20))) == list(range(100, 120))
        for _ in range(3):
            with pytest.raises(WorkerDied, match=r"'die' \(signal SIGKILL\)"):
                workers.call("die")
        assert list(workers.map(lambda number: workers.call("add", number), range(20))) == list(range(100, 120))


def test_errors_come_back_as_what_they_are() -> None:
    worker = Worker(Helper, 1)
    try:
        with pytest.raises(CoevolveError, match=r"params\.yaml: no"):
            worker.call("refuse")
        with pytest.raises(RuntimeError, match="ValueError: by mistake"):
            worker.call("fail")
        assert worker.call("add", 2) == 3
    finally:
        worker.close()


def test_how_many_there_are_is_a_matter_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert 1 <= available() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv(VARIABLE, "3")
    assert available() == 3
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert available() == 1
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.raises(CoevolveError, match=f"{VARIABLE} is 'many'"):
        available()

"""Work in several processes: errors keep their type, and a process that dies is noticed, named and replaced."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import VARIABLE, Worker, WorkerDied, WorkerLate, available
from coevolve.core.workers import Local, Workers
from tests.waiting import PATIENCE


class Helper:
    """The state of a worker process."""

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

    def hang(self) -> None:
        time.sleep(10**6)


def add(worker: Worker, number: int) -> object:
    return worker.call("add", number)


def die(worker: Worker) -> object:
    return worker.call("die")


def test_results_keep_their_order_and_dead_processes_are_replaced() -> None:
    with Workers(Local(2), Helper, 100) as workers:
        assert list(workers.map(add, range(20))) == list(range(100, 120))
        for _ in range(3):
            with pytest.raises(WorkerDied, match=r"'die' \(signal SIGKILL\); if memory ran out"):
                workers.submit(die).result()
        assert list(workers.map(add, range(20))) == list(range(100, 120))


def test_worker_errors_keep_their_type_and_a_call_that_takes_too_long_ends_its_process() -> None:
    worker = Worker(10.0, Helper, 1)
    try:
        with pytest.raises(CoevolveError, match=r"params\.yaml: no"):
            worker.call("refuse")
        with pytest.raises(RuntimeError, match="ValueError: by mistake"):
            worker.call("fail")
        assert worker.call("add", 2) == 3
        with pytest.raises(WorkerLate, match=r"did not end 'hang' within 10\.0 s"):
            worker.call("hang")
        assert worker.call("add", 2) == 3
    finally:
        worker.close()
    with pytest.raises(WorkerDied):
        worker.call("add", 2)


def test_worker_that_is_closed_during_a_call_is_named_as_killed() -> None:
    for _ in range(
        30
    ):  # two threads asked how it ended, and closed the pipe: one in twenty failed with "Bad file descriptor"
        worker = Worker(None, Helper, 1)
        worker.call("add", 2)
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(worker.call, "hang")
            time.sleep(0.005)
            worker.close()
            with pytest.raises(WorkerDied, match=r"ended in 'hang' \(signal SIGKILL\)"):
                hanging.result()


def test_process_count_depends_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert 1 <= available() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv(VARIABLE, "3")
    assert available() == 3
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert available() == 1


def test_interrupt_leaves_importing_workers_to_their_parent(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of a terminal."""
    (tmp_path / "slow.py").write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(2)\n")
    program = """
import signal, time
from coevolve.core.processes import prepare
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell takes from what runs in its background
    try:
        prepare("slow")
        time.sleep(600)
    except KeyboardInterrupt:
        print("stopped")
"""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    started = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "begun").exists():
        assert started.poll() is None
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGINT)
    assert started.communicate() == ("stopped\n", "")


def test_importing_processes_do_not_outlive_a_failure(tmp_path: Path) -> None:
    """It would keep our output open, and a reader of that output would wait for it."""
    (tmp_path / "slow.py").write_text("import time; time.sleep(10**6)")
    program = (
        "from coevolve.core.errors import CoevolveError\n"
        "from coevolve.core.guard import guard\n"
        "from coevolve.core.processes import prepare\n"
        "def main():\n    prepare('slow')\n    raise CoevolveError('so')\n"
        "if __name__ == '__main__':\n    guard(main)\n"
    )
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (1, "error: so\n")


def test_script_that_calls_coevolve_runs_once(tmp_path: Path) -> None:
    """People call coevolve at the top of a script, without `if __name__ == "__main__"`."""
    script = tmp_path / "script.py"
    script.write_text(
        "from fractions import Fraction\n"
        "from coevolve.core.workers import Local, Workers\n"
        "from coevolve.core.processes import Worker\n"
        "print('begins', flush=True)\n"
        "with Workers(Local(2), Fraction, 1, 2) as workers:\n"
        "    print(*workers.map(Worker.call, ['limit_denominator'] * 4))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("begins\n1/2 1/2 1/2 1/2\n", "")

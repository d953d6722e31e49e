"""Processes of this machine that each hold an object, whose methods callers call by name.

``concurrent.futures.ProcessPoolExecutor`` does not do this: it neither ends a call that is late nor replaces a process that died.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import (
    current_process,
    forkserver,
    get_context,
    parent_process,
    resource_tracker,
    set_forkserver_preload,
)
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from types import ModuleType
from typing import Any

from coevolve.core import arithmetic, launch, numeric_options
from coevolve.core.errors import CoevolveError

VARIABLE = "COEVOLVE_PROCESSES"
MOST = 8  # processes by default: a training step has no more pieces
_STARTS = threading.Lock()  # one process starts at a time
MEMORY = "if memory ran out, lower policy.batch or set COEVOLVE_PROCESSES=1, then run the same command again"


class WorkerDied(CoevolveError):
    """A process ended during a call or before it. The next call starts another one."""


class WorkerLate(WorkerDied):
    """A call exceeded the time limit of its process, and the process was ended."""


class WorkerLost(Exception):
    """The machine of a process is out of reach. The call did not cause this."""


def available() -> int:
    """The number of processes for this process's work: COEVOLVE_PROCESSES, or one per core that it may use.

    It is 1 in a process that is itself a worker or was launched as one of several.
    """
    asked = numeric_options.variable(VARIABLE, numeric_options.count, min(len(os.sched_getaffinity(0)), MOST))
    return 1 if launch.inside() or current_process().daemon else asked


def prepare(*modules: str) -> None:
    """Start to import ``modules`` in the process that workers fork from, once for all of them, in the background."""
    set_forkserver_preload([*modules])
    with _without_interrupts():
        forkserver.ensure_running()
    Finalize(None, _end_forkserver, exitpriority=-1)  # after multiprocessing has ended the workers


def _end_forkserver() -> None:
    """End the process of ``prepare``. Otherwise it may import long after this process, and keep its output open."""
    server: Any = forkserver
    with suppress(ProcessLookupError):
        if pid := server._forkserver._forkserver_pid:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in the block never receive Ctrl-C, not even while they import. This process gets it after the block."""
    resource_tracker.ensure_running()  # if it started inside the block, it would let interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes started in the block do not run the script that calls coevolve again. None of what they hold is defined there."""
    with _STARTS:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


class Worker:
    """A process that holds the object that ``make(*arguments)`` returns, and ends with this process. ``make`` starts at once.

    A call waits for its result, at most ``seconds`` if they are set. It raises the errors of the process: a CoevolveError
    or an OSError unchanged, another error as a RuntimeError with its traceback.
    """

    def __init__(self, seconds: float | None, make: Callable[..., Any], *arguments: Any) -> None:
        self._seconds, self._held = seconds, (arithmetic.pinned(), make, arguments)
        self._closed = False
        self._calling = threading.RLock()  # a pipe that another thread closes during a call may be another file by then
        self._start()

    def _start(self) -> None:
        context = get_context("forkserver")
        self._pipe, theirs = context.Pipe()
        # a daemon, so that multiprocessing ends it with this process; only this process receives the terminal's Ctrl-C
        process = context.Process(target=_serve, args=(theirs, *self._held), daemon=True)
        with _without_interrupts(), _without_main():
            process.start()
        theirs.close()
        self._process = process
        self._starting = True

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def call(self, method: str, *arguments: Any) -> Any:
        with self._calling:
            if self._pipe.closed and not self._closed:
                self._start()
                if self._closed:  # meanwhile
                    self._process.kill()
            try:
                if self._starting:  # however long this takes, no call is to blame
                    self._pipe.recv()
                    self._starting = False
                self._pipe.send((method, arguments))
                late = not self._pipe.poll(self._seconds)
                result, error = (None, None) if late else self._pipe.recv()
            except (EOFError, OSError):
                self._process.join()
                self._pipe.close()
                code = self._process.exitcode or 0
                how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                raise WorkerDied(f"process {self.pid} ended in {method!r} ({how}); {MEMORY}") from None
            if late:
                self._end()
                raise WorkerLate(f"process {self.pid} did not end {method!r} within {self._seconds} s")
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process, even during a call."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        self._process.kill()
        with self._calling:
            self._process.join()
            self._pipe.close()


class Holder:
    """An object in a process of its own: the other side of a `Worker`. It uses the shared arithmetic if its parent is ``pinned``."""

    def __init__(self, pinned: bool, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._failure: Exception | None = None
        try:
            if pinned:
                arithmetic.pin()
            self._held = make(*arguments)
        except Exception as error:
            self._failure = _portable(error)

    def call(self, method: str, arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        """The result of a method, or the error that the caller raises."""
        if self._failure is not None:
            return None, self._failure
        try:
            return getattr(self._held, method)(*arguments), None
        except Exception as error:
            return None, _portable(error)


def _serve(pipe: "Connection[Any, Any]", *held: Any) -> None:
    """Answer calls until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    holder = Holder(*held)
    with suppress(EOFError):
        pipe.send("ready")
        while True:
            pipe.send(holder.call(*pipe.recv()))


def _end_with_parent() -> None:
    """End this process when its parent ends: a busy worker does not notice that the pipe of a killed parent is closed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """An error that another process can raise: see `Worker`."""
    if isinstance(error, CoevolveError):
        return CoevolveError(str(error))
    if isinstance(error, MemoryError):
        return MemoryError(str(error))
    if isinstance(error, OSError):  # `guard` reports it in one line
        return OSError(error.errno, error.strerror or str(error), error.filename)
    return RuntimeError("".join(traceback.format_exception(error)))

"""Work in several processes. Each holds its own object, and callers call the object's methods by name.

Results never depend on the number of processes: callers cut work into pieces that do not depend on it, and join the
results in order.
"""

import os
import signal
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
from typing import Any

from coevolve.core import arithmetic, launch, numeric_options
from coevolve.core.errors import CoevolveError

VARIABLE = "COEVOLVE_PROCESSES"
MOST = 8  # processes by default: a training step has no more pieces


class WorkerDied(RuntimeError):
    """A process ended during a call or before it."""


class WorkerLate(WorkerDied):
    """A call exceeded the time limit of its process, and the process was ended."""


class WorkerLost(WorkerDied):
    """The machine of a process is out of reach. The call did not cause this."""


def available() -> int:
    """The number of processes for this process's work: COEVOLVE_PROCESSES, or one per core that it may use.

    It is 1 in a process that is itself a worker or was launched as one of several.
    """
    asked = numeric_options.variable(VARIABLE, numeric_options.count, min(len(os.sched_getaffinity(0)), MOST))
    return 1 if launch.inside() or current_process().daemon else asked


def prepare(*modules: str) -> None:
    """Start to import ``modules`` in the process that workers fork from, once for all of them, in the background."""
    set_forkserver_preload(["__main__", *modules])
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


class Worker:
    """A process that holds the object that ``make(*arguments)`` returns, and ends with this process. ``make`` starts at once.

    A call waits for its result, at most ``seconds`` if they are set. It raises the errors of the process: a CoevolveError
    or an OSError unchanged, another error as a RuntimeError with its traceback.
    """

    seconds: float | None = None

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        context = get_context("forkserver")
        self._pipe, theirs = context.Pipe()
        # a daemon, so that multiprocessing ends it with this process; only this process receives the terminal's Ctrl-C
        self._process = context.Process(target=_serve, args=(theirs, arithmetic.pinned(), make, arguments), daemon=True)
        with _without_interrupts():
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def call(self, method: str, *arguments: Any) -> Any:
        try:
            self._pipe.send((method, arguments))
            if self.seconds is not None and not self._pipe.poll(self.seconds):
                self._process.kill()
                raise WorkerLate(f"process {self.pid} did not end {method!r} within {self.seconds:g} s")
            result, error = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            raise WorkerDied(f"process {self.pid} ended in {method!r} ({_how(code)})") from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process, even during a call."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _serve(pipe: "Connection[Any, Any]", pinned: bool, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Answer calls until the pipe closes. The process uses the shared arithmetic if its parent is ``pinned``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    held, failure = None, None
    try:
        if pinned:
            arithmetic.pin()
        held = make(*arguments)
    except Exception as error:
        failure = portable(error)
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((None, failure) if failure else (getattr(held, method)(*given), None))
        except Exception as error:
            pipe.send((None, portable(error)))


def _end_with_parent() -> None:
    """End this process when its parent ends: a busy worker does not notice that the pipe of a killed parent is closed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def portable(error: Exception) -> Exception:
    """An error that another process can raise: see `Worker`."""
    if isinstance(error, CoevolveError):
        return CoevolveError(str(error))
    if isinstance(error, MemoryError):
        return MemoryError(str(error))
    if isinstance(error, OSError):  # `guard` reports it in one line
        return OSError(error.errno, error.strerror or str(error), error.filename)
    return RuntimeError("".join(traceback.format_exception(error)))

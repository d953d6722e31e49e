"""Work in several processes: each holds an object of its own, which is called by the names of its methods.

How many there are is a matter of the machine, never of the results: whoever shares work out cuts it into pieces that do not
depend on their number, and puts the results together in order.
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

from coevolve.core import arithmetic, launch
from coevolve.core.errors import CoevolveError

VARIABLE = "COEVOLVE_PROCESSES"
MOST = 8  # processes without being told: a step of training has no more pieces to share


class WorkerDied(RuntimeError):
    """A process ended in the middle of a call, or before it. ``how`` is its signal or exit code."""

    how = ""


class WorkerLate(WorkerDied):
    """A call took longer than its process has, and the process was ended."""


class WorkerLost(WorkerDied):
    """The machine of a process is out of reach, for which no call is to blame."""


def available() -> int:
    """How many processes share the work of this one: COEVOLVE_PROCESSES, or a process for each core that it may use.

    One in a process that is itself one of several.
    """
    text = os.environ.get(VARIABLE)
    if text is not None and (not text.isdigit() or int(text) < 1):
        raise CoevolveError(f"{VARIABLE} is {text!r}, expected a number of processes, such as 2; or unset it")
    if launch.inside() or current_process().daemon:
        return 1
    return int(text) if text else min(len(os.sched_getaffinity(0)), MOST)


def prepare(*modules: str) -> None:
    """Begin to import ``modules`` where workers come from, once for all of them, while this process does something else."""
    set_forkserver_preload(["__main__", *modules])
    with _without_interrupts():
        forkserver.ensure_running()
    Finalize(None, _end_forkserver, exitpriority=-1)  # after multiprocessing has ended the workers


def _end_forkserver() -> None:
    """End the process of ``prepare``. It may import for long after this one, and hold its output open to who reads that."""
    server: Any = forkserver
    with suppress(ProcessLookupError):
        if pid := server._forkserver._forkserver_pid:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started here never hears of Ctrl-C, not even while it imports; this process hears of it a moment later."""
    resource_tracker.ensure_running()  # or it would be started within, and let interrupts through when it is
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker:
    """A process that holds what ``make(*arguments)`` returns, and ends with this one; ``make`` is begun at once.

    A call waits for its result, at most ``seconds`` if they are set. What it raises there is raised here: a CoevolveError or an
    OSError as it is, another error as a RuntimeError with its traceback.
    """

    seconds: float | None = None

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        context = get_context("forkserver")
        self._pipe, theirs = context.Pipe()
        # daemons, so that multiprocessing ends them with us; the terminal's Ctrl-C is for us alone
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
            died = WorkerDied(f"process {self.pid} ended in {method!r} ({_how(code)})")
            died.how = _how(code)
            raise died from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _serve(pipe: "Connection[Any, Any]", pinned: bool, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Answer calls until the pipe closes. The process computes as its parent: by the shared arithmetic if that is ``pinned``."""
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
    """A parent that was killed closes no pipe for whoever is busy."""
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
    if isinstance(error, OSError):  # of a file, which is said in one line
        return OSError(error.errno, error.strerror or str(error), error.filename)
    return RuntimeError("".join(traceback.format_exception(error)))

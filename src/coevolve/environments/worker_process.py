"""Processes that answer requests, one at a time. Each holds many sessions, and a pool of processes runs sessions in parallel.

A process that dies or does not answer in time is replaced. The request that ended it raises ``CallBroke``. Later requests to it
raise ``EnvironmentProcessLost``.
"""

import json
import os
import select
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from coevolve.core.deadline import Deadline
from coevolve.core.errors import CoevolveError
from coevolve.environments import wire
from coevolve.environments.environment import EnvironmentFailed, NoRoom, SessionLost

SOURCE = Path(__file__).parents[2]
MAIN = "coevolve.environments.worker_main"  # the worker's side
PREPARE_SECONDS = 600.0
TAIL = 300  # last characters of a dead worker's standard error to read

# Environment variables for a process that executes an agent's calls: no variable with these names holds a key
INHERITED = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "TERM", "VIRTUAL_ENV"}
FAMILIES = (
    "LC_",
    "LD_",
    "PYTHON",
    "COEVOLVE_",
    "APPWORLD_",
    "OPENENV_",
    "OMP_",
    "MKL_",
    "ONEDNN_",
    "ATEN_",
    "SSL_CERT_",
)
PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}  # inherited unless the value holds a password


class CallBroke(RuntimeError):
    """A request raised an error in the worker, ended it, or took too long."""


class EnvironmentProcessLost(SessionLost):
    """The worker had ended before the request."""


FAILURES = {"environment": EnvironmentFailed, "full": NoRoom, "failed": CallBroke}


@cache
def _spawner() -> ThreadPoolExecutor:
    """A thread that lives as long as the process, to start workers: the kernel ends a worker with the thread that started it."""
    return ThreadPoolExecutor(1, thread_name_prefix="spawner")


def inherited() -> dict[str, str]:
    """The environment variables that a worker needs, and the path to coevolve's code. They hold no secret of the user."""
    found = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(FAMILIES) or (name.lower() in PROXIES and "@" not in value)
    }
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**found, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


class EnvironmentProcess:
    """One process. Both time limits count running time (see ``core.deadline``) and exist for requests that hang.

    ``seconds`` limits a request of a session. ``PREPARE_SECONDS`` limits any other request: to start, to make tasks or to find a
    reference may take long. ``memory`` limits the address space in bytes (0: no limit).
    """

    def __init__(self, place: str, python: str, seconds: float, memory: int = 0) -> None:
        self.place = place
        self.dead = ""
        self.stopped = False
        self.sessions = 0
        self.seconds = seconds
        self._lock = threading.Lock()
        self._rest = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._process = _spawner().submit(self._start, python, memory).result()
        except OSError as error:
            raise EnvironmentFailed(f"{place}: {python} does not start ({error})") from None

    def _start(self, python: str, memory: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [python, "-m", MAIN, str(os.getpid()), self.place, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env=inherited(),
            start_new_session=True,  # only this process receives the terminal's Ctrl-C
        )

    def ask(self, do: str, *arguments: Any, session: int | None = None) -> Any:
        """Send a request and return the value of the reply.

        Raises EnvironmentProcessLost if the worker had ended before. A refusal raises CoevolveError, a failure in the worker
        CallBroke, EnvironmentFailed or OSError, and a worker that does not reply CallBroke.
        """
        request = wire.dumps(
            {"do": do, "arguments": arguments, "session": session}
        )  # may raise, so it comes before the pipe
        limit = PREPARE_SECONDS if session is None else self.seconds
        with self._lock:
            if not self.dead and self._process.poll() is not None:
                self._bury(f"{self.place}: the worker ended by itself (exit code {self._process.poll()})")
            if self.dead:
                raise EnvironmentProcessLost(self.dead)
            try:
                line = self._exchange(do, request.encode() + b"\n", limit)
                reply: dict[str, Any] = json.loads(line)
            except BaseException as error:
                # after any error, the next line on the pipe would answer another request
                broken = (
                    f"the answer to {do} is not JSON" if isinstance(error, ValueError | RecursionError) else repr(error)
                )
                self._bury(f"{self.place}: {error if isinstance(error, CallBroke) else broken}")
                if isinstance(error, Exception):
                    raise CallBroke(self.dead) from None
                raise
        if "refused" in reply:
            raise CoevolveError(reply["refused"])
        if "machine" in reply:
            code, reason = reply["machine"]
            raise OSError(code, f"{self.place}: {do} failed: {reason}")
        for kind, failure in FAILURES.items():
            if kind in reply:
                raise failure(f"{self.place}: {do} failed: {reply[kind]}")
        return reply["value"]

    def _exchange(self, do: str, line: bytes, seconds: float) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        out, back = self._process.stdin.fileno(), self._process.stdout.fileno()
        deadline = Deadline(seconds)
        poll = select.poll()
        poll.register(back, select.POLLIN | select.POLLHUP)
        poll.register(out, select.POLLOUT)
        while b"\n" not in self._rest:
            if not (tick := deadline.tick()):
                raise CallBroke(f"{do} took longer than {seconds:g} s")
            ready = dict(poll.poll(1000 * tick))
            if back in ready:
                if not (chunk := os.read(back, 1 << 20)):
                    raise CallBroke(f"the worker ended in {do} (exit code {self._process.wait()}){self._said()}")
                self._rest += chunk
            elif out in ready:
                # at most as much as a pipe takes at once: a worker that does not read must not block this process
                line = line[os.write(out, line[: select.PIPE_BUF]) :]
                if not line:
                    poll.unregister(out)
        reply, _, self._rest = self._rest.partition(b"\n")
        return reply

    def _said(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - TAIL, 0))
        text = self._errors.read().decode(errors="replace").strip()
        return f": {text.splitlines()[-1]}" if text else ""

    def _bury(self, reason: str) -> None:
        self.dead = reason
        self._process.kill()
        self._process.wait()
        for stream in filter(None, (self._process.stdin, self._process.stdout, self._errors)):
            with suppress(OSError):
                stream.close()

    def stop(self) -> None:
        """End the process. Its sessions raise errors from now on."""
        self.stopped = True
        with self._lock:
            if not self.dead:
                self._bury(f"{self.place}: the worker was stopped")

    @property
    def pid(self) -> int:
        return self._process.pid


class Pool:
    """Up to ``size`` workers with up to ``each`` sessions. Further callers wait until a session is closed."""

    def __init__(self, place: str, python: str, size: int, each: int, seconds: float, memory: int) -> None:
        self._arguments = (place, python, seconds, memory)
        self._size = size
        self._each = each
        self._free = threading.Condition()
        self.workers: list[EnvironmentProcess] = []

    def take(self) -> EnvironmentProcess:
        """The worker with the fewest sessions, which gets another session. Blocks while all workers are full."""
        with self._free:
            while True:
                self.workers = [one for one in self.workers if not one.dead]
                best = min(self.workers, key=lambda one: one.sessions, default=None)
                if len(self.workers) < self._size and (best is None or best.sessions):
                    best = EnvironmentProcess(*self._arguments)
                    self.workers.append(best)
                if best is not None and best.sessions < self._each:
                    best.sessions += 1
                    return best
                self._free.wait(timeout=1.0)  # a worker may also die without notice

    def any(self) -> EnvironmentProcess:
        """A worker for a request outside of sessions. Never waits for a session to close."""
        with self._free:
            alive = [one for one in self.workers if not one.dead]
            if not alive:
                alive = [EnvironmentProcess(*self._arguments)]
            self.workers = alive
            return min(alive, key=lambda one: one.sessions)

    def give(self, worker: EnvironmentProcess) -> None:
        with self._free:
            worker.sessions -= 1
            self._free.notify()

    def stop(self) -> None:
        with self._free:
            for worker in self.workers:
                worker.stop()
            self.workers = []
            self._free.notify_all()

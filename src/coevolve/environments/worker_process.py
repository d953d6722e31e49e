"""Processes that answer questions, one at a time: each holds many sessions, and a pool of them steps sessions at once.

One that dies or does not answer in time is replaced. That is the doing of what it was asked (``CallBroke``); who asks it
afterwards hears that it was lost (``EnvironmentProcessLost``).
"""

import json
import os
import select
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, Any

from coevolve.core.deadline import Deadline
from coevolve.core.errors import CoevolveError
from coevolve.environments.environment import EnvironmentFailed

SOURCE = Path(__file__).parents[2]
MAIN = "coevolve.environments.worker_main"  # the worker's side
TAIL = 300  # characters of what a dead worker last wrote to its standard error

# What a process that carries out an agent's calls is told of our environment: under these names there are no keys
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
PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}  # unless there is a password in it


class CallBroke(RuntimeError):
    """What was asked raised in the worker, ended it, or took too long."""


class EnvironmentProcessLost(EnvironmentFailed):
    """The worker had ended before it was asked."""


@cache
def _spawner(process: int) -> ThreadPoolExecutor:
    """A thread that lives as long as the process: the kernel ends a worker with the thread that started it."""
    return ThreadPoolExecutor(1, thread_name_prefix="spawner")


def inherited() -> dict[str, str]:
    """Of this process's environment what such a process needs, and our code; no secret of the user's is among it."""
    found = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(FAMILIES) or (name.lower() in PROXIES and "@" not in value)
    }
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**found, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


class EnvironmentProcess:
    """One process. ``seconds`` limits the running time (see ``core.deadline``) of a call within a session, ``prepare_seconds``
    that of any other: to start, to make tasks or to look for a reference may take long. Both are there for calls that hang.
    ``memory`` limits its address space in bytes (0: no limit)."""

    def __init__(self, place: str, python: str, seconds: float, prepare_seconds: float, memory: int = 0) -> None:
        self.place = place
        self.dead = ""
        self.stopped = False
        self.sessions = 0
        self.seconds = seconds
        self._prepare_seconds = prepare_seconds
        self._lock = threading.Lock()
        self._rest = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._process = _spawner(os.getpid()).submit(self._start, python, memory).result()
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
            start_new_session=True,  # Ctrl-C in the terminal is for us
        )

    def ask(self, do: str, **fields: Any) -> Any:
        """The value of what it answers; see ``value``."""
        return self.value(do, self.answer(do, **fields))

    def value(self, do: str, line: bytes) -> Any:
        """What a reply holds. A refusal is a CoevolveError, what broke in the worker CallBroke or EnvironmentFailed."""
        try:
            reply: dict[str, Any] = json.loads(line)
        except (ValueError, RecursionError):
            reason = f"{self.place}: {do} was answered by what is no JSON"
            with self._lock:
                if not self.dead:
                    self._bury(reason)  # something else writes to the pipe: the next line may answer another question
            raise CallBroke(reason) from None
        if "refused" in reply:
            raise CoevolveError(reply["refused"])
        if "environment" in reply:
            raise EnvironmentFailed(f"{self.place}: {do} failed: {reply['environment']}")
        if "failed" in reply:
            raise CallBroke(f"{self.place}: {do} failed: {reply['failed']}")
        return reply["value"]

    def answer(self, do: str, **fields: Any) -> bytes:
        """Its reply, a line of JSON. None of a worker that had ended before is WorkerLost, none for another reason CallBroke."""
        line = json.dumps({"do": do, **fields}).encode() + b"\n"  # what cannot be written down does not touch the pipe
        with self._lock:
            if not self.dead and self._process.poll() is not None:
                self._bury(f"{self.place}: the worker ended by itself (exit code {self._process.poll()})")
            if self.dead:
                raise EnvironmentProcessLost(self.dead)
            try:
                limit = self.seconds if "session" in fields else self._prepare_seconds
                return self._exchange(do, line, limit)
            except BaseException as error:
                # whatever it was, the next line on the pipe would answer another question
                self._bury(f"{self.place}: {error}" if isinstance(error, CallBroke) else f"{self.place}: {error!r}")
                if isinstance(error, Exception):
                    raise CallBroke(self.dead) from None
                raise

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
                # no more than a pipe takes at once, or a worker that does not read would block us
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
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                if stream:
                    stream.close()
            except OSError:
                pass

    def stop(self) -> None:
        """End the process; its sessions raise from now on."""
        self.stopped = True
        with self._lock:
            if not self.dead:
                self._bury(f"{self.place}: the worker was stopped")

    @property
    def pid(self) -> int:
        return self._process.pid


class Pool:
    """Up to ``size`` workers with up to ``each`` sessions; who wants more waits until one is closed."""

    def __init__(
        self, place: str, python: str, size: int, each: int, seconds: float, prepare_seconds: float, memory: int
    ) -> None:
        self._arguments = (place, python, seconds, prepare_seconds, memory)
        self._size = size
        self._each = each
        self._free = threading.Condition()
        self.workers: list[EnvironmentProcess] = []

    def take(self) -> EnvironmentProcess:
        """The worker with the fewest sessions, with one more; blocks while all are full."""
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
                self._free.wait(timeout=1.0)  # a worker may also die without a word

    def any(self) -> EnvironmentProcess:
        """A worker for a question outside of sessions: never waits for one to be closed."""
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

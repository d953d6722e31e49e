"""Run untrusted statements in processes that may be lost (``sandbox_main``). No statement can block or end this process.

A database follows from its world and the statements that changed it. So any process can answer for it, and nothing is lost with
a process.
"""

import marshal
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from queue import LifoQueue
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.environments.worker_process import inherited
from coevolve_environments.sql.sandbox_main import SECONDS, World, send

MAIN = "coevolve_environments.sql.sandbox_main"
MOST = 4  # processes that run statements for this one

Result = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of a statement. ``error`` is the reason of a refusal. ``wrote``: the statement may have changed the database."""

    columns: list[str]
    rows: Result
    wrote: bool = False
    error: str = ""


class SandboxLost(Exception):
    """The process ended. The text is the signal or the exit code."""


class Process:
    """A process that runs one statement at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=inherited(),
            start_new_session=True,  # only this process receives the terminal's Ctrl-C
        )
        try:
            self._read()
        except SandboxLost as lost:
            raise CoevolveError(f"sql: `{sys.executable} -m {MAIN}` does not start ({lost}); run it by hand") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, *request: Any) -> tuple[str, Any]:
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, request)
            reply: tuple[str, Any] = self._read()
            return reply
        except BrokenPipeError:
            raise self._gone() from None
        except BaseException:
            self._gone()  # the next answer could belong to this request
            raise

    def _read(self) -> Any:
        assert self._process.stdout is not None
        try:
            return marshal.load(self._process.stdout)
        except (EOFError, ValueError, TypeError):  # the last reply is not whole
            raise self._gone() from None

    def _gone(self) -> SandboxLost:
        self._process.kill()
        code = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # the process did not read all data
                    stream.close()
        return SandboxLost(signal.Signals(-code).name if code < 0 else f"exit code {code}")


@cache
def _idle(process: int) -> "LifoQueue[Process | None]":
    """The idle sandbox processes of this process; a fork has its own. None stands for a process that may still start."""
    idle: LifoQueue[Process | None] = LifoQueue()
    for _ in range(min(MOST, len(os.sched_getaffinity(0)))):
        idle.put(None)
    return idle


def _answer(*request: Any) -> tuple[str, Any]:
    """The answer to a request. A request that ends two processes in a row is to blame."""
    idle = _idle(os.getpid())
    one = idle.get()
    try:
        for _ in range(2):
            one = one or Process()
            try:
                return one.ask(*request)
            except SandboxLost as lost:
                one = None
                if str(lost) == "SIGPROF":
                    return "error", f"took longer than {SECONDS:g} s"
                how = lost
            except BaseException:
                one = None
                raise
        return "error", f"ended the process that ran it ({how})"
    finally:
        idle.put(one)


def run(world: World, journal: tuple[str, ...], statement: str) -> StatementOutcome:
    """Run one statement on the database of ``world``, which the statements of ``journal`` have changed."""
    kind, value = _answer(world, journal, statement)
    if kind == "error":
        return StatementOutcome([], (), error=value)
    columns, rows, wrote = value
    return StatementOutcome(columns, tuple(rows), wrote)


@lru_cache(maxsize=4096)
def state(world: World, journal: tuple[str, ...]) -> str:
    """Hash of the database's contents. If statements made it unreadable, the hash equals that of no other database."""
    kind, value = _answer(world, journal, None)
    return str(value) if kind == "state" else content_hash(["unreadable", world, journal])

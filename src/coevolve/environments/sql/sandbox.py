"""Statements by whoever wrote them, run in processes that may be lost (``sandbox_main``): none can hold or end this one.

A database is what its world and the statements that changed it make of it, so that any process can answer for it, and one
that was lost takes nothing along.
"""

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
from coevolve.environments.sql.sandbox_main import SECONDS, World, receive, send
from coevolve.environments.worker_process import inherited

MAIN = "coevolve.environments.sql.sandbox_main"
MOST = 4  # processes that run statements for this one

Result = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """What came of a statement: ``error`` says why it was refused, ``wrote`` that the database may be another now."""

    columns: list[str]
    rows: Result
    wrote: bool = False
    error: str = ""


class SandboxLost(Exception):
    """The process ended; with the signal that ended it, if one did."""


class Process:
    """One process that runs statements, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=inherited(),
            start_new_session=True,  # Ctrl-C in the terminal is for us
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
            self._gone()  # or the next answer would be to another question
            raise

    def _read(self) -> Any:
        assert self._process.stdout is not None
        try:
            return receive(self._process.stdout)
        except EOFError:
            raise self._gone() from None

    def _gone(self) -> SandboxLost:
        self._process.kill()
        code = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # what it did not read
                    stream.close()
        return SandboxLost(signal.Signals(-code).name if code < 0 else f"exit code {code}")


@cache
def _idle(process: int) -> "LifoQueue[Process | None]":
    """Those that have nothing to do, in this process: a fork of it has its own. None may be started."""
    idle: LifoQueue[Process | None] = LifoQueue()
    for _ in range(min(MOST, len(os.sched_getaffinity(0)))):
        idle.put(None)
    return idle


def _answer(*request: Any) -> tuple[str, Any]:
    """The answer to a request. What ends two processes in a row ended them itself."""
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
    """Hash of all that the database holds. What statements made of it may be past reading: then it is like no other."""
    kind, value = _answer(world, journal, None)
    return str(value) if kind == "state" else content_hash(["unreadable", world, journal])

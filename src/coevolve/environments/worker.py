"""Environments whose packages clash with ours: each in a process of its own, with its own virtual environment.

A process holds many sessions and answers one call at a time; a pool of them steps sessions at once. A process that
dies or does not answer in time is replaced; its sessions raise ``EnvironmentDied``, which a rollout turns into the stop
reason ``environment_failed``: an episode that the environment broke is never scored.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments import wire
from coevolve.environments.environment import Environment, Phrasebook, Session
from coevolve.environments.sources import sources

SOURCE = Path(__file__).parents[2]
MAIN = "coevolve.environments.worker_main"  # the worker's side
TAIL = 300  # characters of what a dead worker last wrote to its standard error


class EnvironmentDied(RuntimeError):
    """A worker crashed, hung or broke; says nothing about the agent."""


@cache
def _spawner(process: int) -> ThreadPoolExecutor:
    """A thread that lives as long as the process: the kernel ends a worker with the thread that started it."""
    return ThreadPoolExecutor(1, thread_name_prefix="spawner")


class Worker:
    """One process. ``seconds`` limits the wall time of a call within a session, ``prepare_seconds`` that of any other: to
    start, to make tasks or to look for a reference may take long. Both are there for what hangs."""

    def __init__(self, place: str, python: str, seconds: float, prepare_seconds: float) -> None:
        self.place = place
        self.dead = ""
        self.sessions = 0
        self.seconds = seconds
        self._prepare_seconds = prepare_seconds
        self._lock = threading.Lock()
        self._rest = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._process = _spawner(os.getpid()).submit(self._start, python).result()
        except OSError as error:
            raise EnvironmentDied(f"{place}: {python} does not start ({error})") from None

    def _start(self, python: str) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.Popen(
            [python, "-m", MAIN, str(os.getpid()), self.place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,  # Ctrl-C in the terminal is for us
        )

    def ask(self, do: str, **fields: Any) -> Any:
        """The value of a reply. A refusal is a CoevolveError; whatever else goes wrong is EnvironmentDied."""
        line = json.dumps({"do": do, **fields}).encode() + b"\n"
        with self._lock:
            if self.dead:
                raise EnvironmentDied(self.dead)
            try:
                limit = self.seconds if "session" in fields else self._prepare_seconds
                reply = json.loads(self._exchange(do, line, limit))
            except BaseException as error:
                # whatever it was, the next line on the pipe would answer another question
                self._bury(
                    f"{self.place}: {error}" if isinstance(error, EnvironmentDied) else f"{self.place}: {error!r}"
                )
                if isinstance(error, Exception) and not isinstance(error, CoevolveError):
                    raise EnvironmentDied(self.dead) from None
                raise
        if "refused" in reply:
            raise CoevolveError(reply["refused"])
        if "failed" in reply:
            raise EnvironmentDied(f"{self.place}: {do} failed: {reply['failed']}")
        return reply["value"]

    def _exchange(self, do: str, line: bytes, seconds: float) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        out, back = self._process.stdin.fileno(), self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(back, select.POLLIN | select.POLLHUP)
        poll.register(out, select.POLLOUT)
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            ready = dict(poll.poll(1000 * left)) if left > 0 else {}
            if not ready:
                raise EnvironmentDied(f"{do} took longer than {seconds:g} s")
            if back in ready:
                if not (chunk := os.read(back, 1 << 20)):
                    raise EnvironmentDied(f"the worker ended in {do} (exit code {self._process.wait()}){self._said()}")
                self._rest += chunk
            elif line:
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
        with self._lock:
            if not self.dead:
                self._bury(f"{self.place}: the worker was stopped")

    @property
    def pid(self) -> int:
        return self._process.pid


class Pool:
    """Up to ``size`` workers with up to ``each`` sessions; who wants more waits until one is closed."""

    def __init__(self, place: str, python: str, size: int, each: int, seconds: float, prepare_seconds: float) -> None:
        self._arguments = (place, python, seconds, prepare_seconds)
        self._size = size
        self._each = each
        self._free = threading.Condition()
        self.workers: list[Worker] = []

    def take(self) -> Worker:
        """The worker with the fewest sessions, with one more; blocks while all are full."""
        with self._free:
            while True:
                self.workers = [one for one in self.workers if not one.dead]
                best = min(self.workers, key=lambda one: one.sessions, default=None)
                if len(self.workers) < self._size and (best is None or best.sessions):
                    best = Worker(*self._arguments)
                    self.workers.append(best)
                if best is not None and best.sessions < self._each:
                    best.sessions += 1
                    return best
                self._free.wait(timeout=1.0)  # a worker may also die without a word

    def any(self) -> Worker:
        """A worker for a question outside of sessions: never waits for one to be closed."""
        with self._free:
            alive = [one for one in self.workers if not one.dead]
            if not alive:
                alive = [Worker(*self._arguments)]
            self.workers = alive
            return min(alive, key=lambda one: one.sessions)

    def give(self, worker: Worker) -> None:
        with self._free:
            worker.sessions -= 1
            self._free.notify()

    def stop(self) -> None:
        with self._free:
            for worker in self.workers:
                worker.stop()
            self.workers = []
            self._free.notify_all()


class WorkerEnvironment(Environment):
    """An environment that lives in workers.

    ``place`` is MODULE:CLASS of it there, or =NAME for one that ``make`` knows there. What it says of itself is what the
    one in the worker says; ``capacity`` is no more than the workers hold.
    """

    capacity: int

    def __init__(
        self,
        name: str,
        place: str,
        python: str = sys.executable,
        size: int = 2,
        each: int = 64,
        seconds: float = 60.0,
        prepare_seconds: float = 600.0,
    ) -> None:
        self.name = name
        self.place = place
        self.capacity = size * each
        self._arguments = (place, python, size, each, seconds, prepare_seconds)
        self._pools: dict[int, Pool] = {}
        self._tasks: dict[str, tuple[Task, ...]] = {}
        about = self._ask("describe")
        self.capacity = min(self.capacity, about["capacity"] or self.capacity)
        self.fingerprint = about["fingerprint"]
        self.panels = tuple(about["panels"])
        self.more_splits = tuple(about["more_splits"])
        self.quarantine = about["quarantine"]
        self.phrasebook = Phrasebook(**about["phrasebook"])
        self._tools: list[dict[str, Any]] = about["tools"]

    @property
    def pool(self) -> Pool:
        """This process's own: a fork must not share its parent's pipes."""
        if os.getpid() not in self._pools:
            self._pools = {os.getpid(): Pool(*self._arguments)}
        return self._pools[os.getpid()]

    def _ask(self, do: str, **fields: Any) -> Any:
        try:
            return self.pool.any().ask(do, **fields)
        except EnvironmentDied as error:
            raise CoevolveError(f"{self.name}: {' '.join(str(error).split())}") from None

    def load_tasks(self, split: str) -> Sequence[Task]:
        """Kept, since a worker may need long to make them."""
        if split not in self._tasks:
            self._tasks[split] = tuple(wire.to_task(one) for one in self._ask("tasks", split=split))
        return self._tasks[split]

    def tools(self) -> Sequence[dict[str, Any]]:
        return self._tools

    def open(self) -> "WorkerSession":
        return WorkerSession(self.pool)

    def reference(self, task: Task) -> list[list[ToolCall]]:
        turns = self._ask("reference", task=wire.of_task(task))
        return [[ToolCall(name, arguments) for name, arguments in turn] for turn in turns]

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        world: dict[str, Any] = self._ask("fresh_world", task=wire.of_task(task), seed=seed)
        return world

    def category(self, task: Task) -> str:
        return str(self._ask("category", task=wire.of_task(task)))

    def scenario(self, task: Task) -> str:
        return str(self._ask("scenario", task=wire.of_task(task)))

    def sources(self) -> dict[str, str]:
        """Those of the one in the worker, and of the two ends of the pipe."""
        theirs: dict[str, str] = self._ask("sources")
        return {**theirs, **sources([__name__, MAIN])}

    def close(self) -> None:
        self.pool.stop()


class WorkerSession(Session):
    """A session in a worker."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._worker: Worker | None = pool.take()
        try:
            self._number = self._worker.ask("open")
        except BaseException:
            pool.give(self._worker)
            raise

    def _ask(self, do: str, **fields: Any) -> Any:
        if self._worker is None:
            raise EnvironmentDied("the session is closed")
        return self._worker.ask(do, session=self._number, **fields)

    def reset(self, task: Task) -> Observation:
        return wire.to_turn(self._ask("reset", task=wire.of_task(task)))

    def begin_reply(self) -> None:
        self._ask("begin_reply")

    def step(self, call: ToolCall) -> Observation:
        return wire.to_turn(self._ask("step", name=call.name, arguments=call.arguments))

    def say(self, text: str) -> Observation:
        return wire.to_turn(self._ask("say", text=text))

    def score(self) -> Score:
        return wire.to_score(self._ask("score"))

    def digest(self) -> str:
        return str(self._ask("digest"))

    def close(self) -> None:
        """Also of a session whose worker died; a second time does nothing."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            if not worker.dead:
                worker.ask("close", session=self._number)
        except EnvironmentDied:
            pass
        finally:
            self._pool.give(worker)

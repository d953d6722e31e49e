"""Environments in separate processes. Some have packages that conflict with coevolve's and need their own virtual environment. In
others a call can hold the interpreter's lock for ever, and only a process can be killed.

A call that ends its process or exceeds the time limit ends only its own session. The other sessions continue in another process,
which repeats their requests.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments import wire
from coevolve.environments.environment import Environment, EnvironmentFailed, Phrasebook, Session, SessionLost
from coevolve.environments.sources import sources
from coevolve.environments.worker_process import MAIN, CallBroke, EnvironmentProcess, EnvironmentProcessLost, Pool

PURE = ("score", "digest")  # requests that do not change a session


class WorkerEnvironment(Environment):
    """An environment that lives in workers.

    ``place`` is its MODULE:CLASS, or =NAME for a name that ``make`` knows in the worker. Its attributes are those of the
    environment in the worker; ``capacity`` is at most the number of sessions that the workers hold.
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
        memory: int = 0,
    ) -> None:
        self.name = name
        self.place = place
        self.capacity = size * each
        self._arguments = (place, python, size, each, seconds, prepare_seconds, memory)
        self._pools: dict[int, Pool] = {}
        self._tasks: dict[str, tuple[Task, ...]] = {}
        about = self._ask("describe")
        self.capacity = min(self.capacity, about["capacity"] or self.capacity)
        self.fingerprint = about["fingerprint"]
        self.panels = tuple(about["panels"])
        self.more_splits = tuple(about["more_splits"])
        self.quarantine = about["quarantine"]
        self.phrasebook = Phrasebook(**about["phrasebook"])
        self.goals = tuple(about["goals"])
        self.license = about["license"]
        self._tools: list[dict[str, Any]] = about["tools"]

    @property
    def pool(self) -> Pool:
        """The workers of this process. A fork gets its own, because it must not share its parent's pipes."""
        if os.getpid() not in self._pools:
            self._pools = {os.getpid(): Pool(*self._arguments)}
        return self._pools[os.getpid()]

    def _ask(self, do: str, **fields: Any) -> Any:
        try:
            return self.pool.any().ask(do, **fields)
        except EnvironmentProcessLost:  # a session's call ended the process while this request waited
            return self._ask(do, **fields)
        except (EnvironmentFailed, CallBroke, OSError) as error:
            raise CoevolveError(f"{self.name}: {' '.join(str(error).split())}") from None

    def load_tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split. Cached, because a worker may need long to make them."""
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

    def construct(self, goal: str, seed: int) -> Task:
        return wire.to_task(self._ask("construct", goal=goal, seed=seed))

    def category(self, task: Task) -> str:
        return str(self._ask("category", task=wire.of_task(task)))

    def scenario(self, task: Task) -> str:
        return str(self._ask("scenario", task=wire.of_task(task)))

    def sources(self) -> dict[str, str]:
        """The sources of the environment in the worker, and the modules at both ends of the pipe."""
        theirs: dict[str, str] = self._ask("sources")
        return {**theirs, **sources([__name__, MAIN])}

    def close(self) -> None:
        self.pool.stop()


class WorkerSession(Session):
    """A session in a worker.

    It keeps its requests since the last reset. If another session's call ends the worker, this session repeats its requests in
    another worker, which must give the same answers. If its own request ends the worker, the session is over.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._worker: EnvironmentProcess | None = None
        self._number = 0
        self._asked: list[tuple[str, dict[str, Any], bytes]] = []  # requests, with the gist of each reply
        self._over = ""  # the reason, if this session's own request ended it
        self._enter()

    def _enter(self) -> None:
        while self._worker is None:
            worker = self._pool.take()
            try:
                self._number = worker.ask("open")
                self._worker = worker
            except EnvironmentProcessLost:
                self._pool.give(worker)
            except BaseException:
                self._pool.give(worker)
                raise

    def _leave(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._pool.give(worker)

    def _ask(self, do: str, **fields: Any) -> Any:
        if self._over:
            raise CallBroke(self._over)
        while True:
            if self._worker is None:
                raise EnvironmentFailed("the session is closed")
            worker = self._worker
            try:
                reply = worker.answer(do, session=self._number, **fields)
                break
            except EnvironmentProcessLost:
                if worker.stopped:
                    raise
                self._move()
            except CallBroke as error:
                self._over = str(error)
                raise
        if do not in PURE:
            self._asked.append((do, fields, _gist(reply)))
        try:
            return worker.value(do, reply)
        except CallBroke as error:
            self._over = str(error) if worker.dead else ""
            raise

    def _move(self) -> None:
        """Continue in another worker: repeat all requests and compare the answers."""
        self._leave()
        try:
            self._enter()
        except Exception as error:
            raise SessionLost(f"no session in place of one that was lost: {error}") from None
        asked, self._asked = self._asked, []
        for do, fields, gist in asked:
            with suppress(CallBroke, CoevolveError):
                self._ask(do, **fields)
            if self._over:
                raise CallBroke(self._over)
            if self._asked[-1][2] != gist:
                raise SessionLost(f"after its worker was lost, {do} was not answered as it had been")

    def reset(self, task: Task) -> Observation:
        if self._over:
            self._over = ""
            if self._worker is not None and self._worker.dead:
                self._leave()
                self._enter()
        self._asked = []
        return Observation(**self._ask("reset", task=wire.of_task(task)))

    def begin_reply(self) -> None:
        self._ask("begin_reply")

    def step(self, call: ToolCall) -> Observation:
        if wrong := misfit(call.name, call.arguments):
            return Observation("tool", wrong, error=True)
        return Observation(**self._ask("step", name=call.name, arguments=call.arguments))

    def say(self, text: str) -> Observation:
        return Observation(**self._ask("say", text=text))

    def score(self) -> Score:
        return Score(**self._ask("score"))

    def digest(self) -> str:
        return str(self._ask("digest"))

    def close(self) -> None:
        """Close the session, even if its worker died. A second call does nothing."""
        worker = self._worker
        if worker is None:
            return
        try:
            if not worker.dead:
                worker.ask("close", session=self._number)
        except (EnvironmentFailed, CallBroke, OSError):
            pass
        finally:
            self._leave()


def _gist(reply: bytes) -> bytes:
    """The part of a reply that a repeated request must give again. The text of a failure may contain a memory address."""
    broke = reply.startswith((b'{"failed"', b'{"environment"', b'{"full"', b'{"machine"'))
    return reply.partition(b":")[0] if broke else hashlib.sha256(reply).digest()

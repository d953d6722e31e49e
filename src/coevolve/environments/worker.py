"""Environments in separate processes. Some have packages that conflict with coevolve's and need their own virtual environment. In
others a call can hold the interpreter's lock for ever, and only a process can be killed.

A call that ends its process or exceeds the time limit ends only its own session. The other sessions continue in another process,
which repeats their requests.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall, misfit
from coevolve.environments import wire
from coevolve.environments.environment import Environment, EnvironmentFailed, Phrasebook, Session, SessionLost
from coevolve.environments.sources import sources
from coevolve.environments.wire import BEGIN
from coevolve.environments.worker_process import MAIN, CallBroke, EnvironmentProcess, EnvironmentProcessLost, Pool

PURE = ("score", "digest")  # requests that do not change a session
ATTRIBUTES = ("capacity", "fingerprint", "license", "panels", "more_splits", "goals", "quarantine", "phrasebook")


class WorkerEnvironment(Environment):
    """An environment that lives in workers.

    ``place`` is what ``make`` takes in the worker. Its attributes are those of the environment in the worker; ``capacity`` is at
    most the number of sessions that the workers hold.
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
        memory: int = 0,
    ) -> None:
        self.name = name
        self.place = place
        self.capacity = size * each
        self.pool = Pool(place, python, size, each, seconds, memory)
        self._tasks: dict[str, tuple[Task, ...]] = {}
        about = self._ask("describe", *ATTRIBUTES)
        self.capacity = min(self.capacity, about["capacity"] or self.capacity)
        self.fingerprint, self.license = about["fingerprint"], about["license"]
        self.panels, self.more_splits, self.goals = (tuple(about[name]) for name in ("panels", "more_splits", "goals"))
        self.quarantine = about["quarantine"]
        self.phrasebook = Phrasebook(**about["phrasebook"])
        self._tools: list[dict[str, Any]] = self._ask("tools")

    def _ask(self, do: str, *arguments: Any) -> Any:
        try:
            return self.pool.any().ask(do, *arguments)
        except EnvironmentProcessLost:  # a session's call ended the process while this request waited
            return self._ask(do, *arguments)
        except (EnvironmentFailed, CallBroke, OSError) as error:
            raise CoevolveError(f"{self.name}: {' '.join(str(error).split())}") from None

    def load_tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split. Cached, because a worker may need long to make them."""
        if split not in self._tasks:
            self._tasks[split] = tuple(wire.to_task(one) for one in self._ask("tasks", split))
        return self._tasks[split]

    def tools(self) -> Sequence[dict[str, Any]]:
        return self._tools

    def open(self) -> "WorkerSession":
        return WorkerSession(self.pool)

    def reference(self, task: Task) -> list[list[ToolCall]]:
        return [[ToolCall(**call) for call in turn] for turn in self._ask("reference", task)]

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        world: dict[str, Any] = self._ask("fresh_world", task, seed)
        return world

    def construct(self, goal: str, seed: int) -> Task:
        return wire.to_task(self._ask("construct", goal, seed))

    def category(self, task: Task) -> str:
        return str(self._ask("category", task))

    def scenario(self, task: Task) -> str:
        return str(self._ask("scenario", task))

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
        self._asked: list[tuple[str, tuple[Any, ...], Any]] = []  # with each reply's value or the type of its error
        self._over = ""  # the reason, if this session's own request ended it
        self._begins = False  # the next call is the first of a reply
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

    def _ask(self, do: str, *arguments: Any) -> Any:
        if self._over:
            raise CallBroke(self._over)
        worker = self._worker
        if worker is None:
            raise EnvironmentFailed("the session is closed")
        value, error = None, None
        try:
            value = worker.ask(do, *arguments, session=self._number)
        except EnvironmentProcessLost:
            if worker.stopped:
                raise
            self._move()
            return self._ask(do, *arguments)
        except Exception as failure:
            error = failure
            self._over = str(error) if isinstance(error, CallBroke) and worker.dead else ""
        if do not in PURE:
            self._asked.append((do, arguments, value if error is None else type(error)))
        if error is not None:
            raise error
        return value

    def _move(self) -> None:
        """Continue in another worker: repeat all requests and compare the answers."""
        self._leave()
        try:
            self._enter()
        except Exception as error:
            raise SessionLost(f"no session in place of one that was lost: {error}") from None
        asked, self._asked = self._asked, []
        for do, arguments, outcome in asked:
            with suppress(CallBroke, CoevolveError):
                self._ask(do, *arguments)
            if self._over:
                raise CallBroke(self._over)
            if self._asked[-1][2] != outcome:
                raise SessionLost(f"after its worker was lost, {do} was not answered as it had been")

    def reset(self, task: Task) -> Observation:
        if self._over:
            self._over = ""
            if self._worker is not None and self._worker.dead:
                self._leave()
                self._enter()
        self._asked, self._begins = [], False
        return Observation(**self._ask("reset", task))

    def begin_reply(self) -> None:
        self._begins = True

    def step(self, call: ToolCall) -> Observation:
        begins, self._begins = self._begins, False
        if wrong := misfit(call.name, call.arguments):
            if begins:
                self._ask("begin_reply")
            return Observation("tool", wrong, error=True)
        # one request for both halves the traffic
        return Observation(**self._ask(BEGIN if begins else "step", call))

    def say(self, text: str) -> Observation:
        return Observation(**self._ask("say", text))

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

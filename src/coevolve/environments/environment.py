"""The interface of environments: an environment knows its tasks and tools, and a session is an episode in it."""

import errno
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.plugins import attempt
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.sources import sources

# errors of the machine: no space, no quota, a broken disk, no more files to open
MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE})


class EnvironmentFailed(RuntimeError):
    """Raised by a session for a failure that the agent may not have caused, such as a server that is gone.

    After a call of the agent it is a claim, which ``blameless`` checks.
    """


class SessionLost(EnvironmentFailed):
    """Raised by a worker's session that another session's call ended. Only workers know this, so no environment raises it."""


class NoRoom(EnvironmentFailed):
    """Raised by ``reset`` if a server works but all its sessions are in use."""


class FailureReason(StrEnum):
    """The reason why an episode says nothing about the agent."""

    START = "no session started"
    GONE = "no other session started either"
    LOST = "another session's call ended its process"
    MACHINE = "the machine has no space or no files left"
    SERVER = "the model's server gave no reply"


def blameless(error: BaseException, environment: "Environment", task: Task) -> FailureReason | None:
    """The reason why ``error``, which a session of ``task`` raised after a call, says nothing about the agent.

    None means that the call is to blame. The agent is responsible for the effects of its calls. Otherwise it could take its
    failures out of the statistics by calls that break its session. So a claim of the session does not excuse the agent: the
    environment failed only if no new session starts.
    """
    if isinstance(error, SessionLost):
        return FailureReason.LOST
    if isinstance(error, OSError) and error.errno in MACHINE:
        return FailureReason.MACHINE
    return FailureReason.GONE if isinstance(error, EnvironmentFailed) and not _starts(environment, task) else None


def _starts(environment: "Environment", task: Task) -> bool:
    """Whether a new session of ``task`` starts, or would start if there were room."""
    session = None
    try:
        session = environment.open()
        session.reset(task)
        return True
    except NoRoom:
        return True  # a session that hangs in the agent's call may hold the room
    except (Exception, SystemExit):
        return False
    finally:
        if session is not None:
            with suppress(Exception):
                session.close()


OPENERS = ("", "", "please", "could you", "now", "i need you to", "go and", "first")
CLOSERS = ("", "", "please", "thanks", "for me", "if you can")
CONNECTIVES = (" and ", " then ", " , then ", " and also ", " ; after that ")


@dataclass(frozen=True)
class Phrasebook:
    """Phrases for an environment's tools. ``{argument}`` stands for an argument's description.

    ``actions``: tool → ways to ask for it. ``lookups``: tool → ways to describe the object that it finds, or argument →
    ways to say its value. ``fields``: ``tool.field`` → ways to describe that field of the object. ``questions``:
    ``tool.field`` → ways to ask for it. ``sentences``: tool → what it does, for calls that no phrase describes.
    ``revealed``: the ``tool.argument`` pairs, besides identifiers, whose values users leave to lookups.
    ``english``: whether calls and values without a phrase may get English words. If not, no task is made for them.
    Unless a book is ``complete``, the wording of the training tasks adds to it (see ``words.learned_phrases``).

    Further slots: ``{argument.field}``, another field of the record in which an earlier call revealed the argument;
    ``{tool.argument}``, an argument of that earlier call. These say nothing but restrict the phrase: ``{argument="value"}`` to
    this value, and ``{tool}`` to a value that this tool without arguments reveals.
    """

    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lookups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sentences: Mapping[str, str] = field(default_factory=dict)
    revealed: Sequence[str] = ()
    openers: Sequence[str] = OPENERS
    closers: Sequence[str] = CLOSERS
    connectives: Sequence[str] = CONNECTIVES
    english: bool = True
    complete: bool = False


class Session(ABC):
    """A session plays one episode at a time. All its calls, from ``Environment.open`` to ``close``, come from the same thread.

    That thread need not be the main thread, where alone signals work. Other sessions play in other threads at the same time.
    """

    @abstractmethod
    def reset(self, task: Task) -> Observation:
        """Start ``task`` in a fresh world. Returns the first user turn with the tools."""

    @abstractmethod
    def step(self, call: ToolCall) -> Observation:
        """Execute one call. The agent's mistakes come back as ``Observation.error``, never as exceptions.

        An exception ends the episode: ``blameless`` decides whether the agent or the environment is to blame.
        """

    @abstractmethod
    def say(self, text: str) -> Observation:
        """Take a message without a call. Returns the next user turn, or the end of the episode (``done``)."""

    @abstractmethod
    def score(self) -> Score:
        """Judge the episode so far. Pure: callable at any time, any number of times."""

    @abstractmethod
    def digest(self) -> str:
        """Content hash of the world's mutable state: equal before and after a call that changed nothing.

        After ``reset`` it identifies the world in which a task starts. Verification recognizes a panel's world by it in any spelling.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the episode. A second call does nothing."""

    def begin_reply(self) -> None:
        """Called before the calls of each reply with calls, for benchmarks that count replies. Does nothing by default."""
        return


class Environment(ABC):
    """A stateless catalogue of tasks that opens sessions.

    A subclass sets ``name``, ``fingerprint`` and ``panels``, and implements ``load_tasks``, ``tools`` and ``open``. Everything
    else has a default.
    """

    name: str
    fingerprint: str  # package version + data hash; part of every lineage
    panels: tuple[str, ...]  # the frozen evaluation splits; "seed" is the training split

    license: str = "unknown"  # SPDX identifier of the tasks' license, with further conditions for redistribution
    more_splits: tuple[str, ...] = ()  # further splits of ``tasks``
    capacity: int | None = None  # most sessions open at the same time; None: no limit
    quarantine: Mapping[str, str] = MappingProxyType({})  # items known to be unsolvable: ``id`` in a world → reason
    phrasebook: Phrasebook = Phrasebook()  # the wording of training tasks adds what it lacks
    # kinds of tasks that ``construct`` makes; a constructed task has its kind among its tags
    goals: tuple[str, ...] = ()

    @abstractmethod
    def load_tasks(self, split: str) -> Sequence[Task]:
        """The tasks of an existing ``split``, the same at each call."""

    @abstractmethod
    def tools(self) -> Sequence[dict[str, Any]]:
        """OpenAI function schemas of all tools that any task may offer."""

    @abstractmethod
    def open(self) -> Session:
        """A new session; ``reset`` starts its first episode."""

    def check_named(self, key: str, name: str, panel: bool = False) -> None:
        """Raise a CoevolveError unless the parameter ``key`` names a training split, or a ``panel``."""
        kind, known = ("panel", self.panels) if panel else ("training split", ("seed", *self.more_splits))
        if name not in known:
            raise CoevolveError(
                f"params.yaml: {key}: {name!r} is not a {kind} of {self.name}; expected one of: {', '.join(known)}"
            )

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of ``split`` ("seed", a panel or one of ``more_splits``); an unknown one is a CoevolveError."""
        known = ("seed", *self.panels, *self.more_splits)
        if split not in known:
            raise CoevolveError(f"{self.name} has no split {split!r}; expected one of: {', '.join(known)}")
        tasks: Sequence[Task] = attempt(partial(self.load_tasks, split), f"{self.name} has no tasks of {split}")
        return tasks

    def reference(self, task: Task) -> list[list[ToolCall]]:
        """The calls, turn by turn, that solve ``task``: by default ``task.reference``."""
        return task.reference

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """The world in which an exploration around ``task`` starts: another world of its kind, or by default its own."""
        return task.world

    def construct(self, goal: str, seed: int) -> Task:
        """The task of the kind ``goal``, one of ``goals``, for ``seed``. ``reset`` must derive the instruction from its world."""
        raise CoevolveError(f"{self.name} constructs no tasks")

    def category(self, task: Task) -> str:
        """The kind of ``task``, a row in a table of results and a unit of intervals.

        By default it is the first tag, or the tools of the reference in order if the first tag is a tool or there is none.
        """
        if task.family and task.family not in task.tools:
            return task.family
        return ", ".join(call.name for call in task.calls) or "other"

    def scenario(self, task: Task) -> str:
        """The scenario of ``task``. A scenario succeeds if all its tasks do. By default each task is a separate scenario."""
        return task.task_id

    def sources(self) -> dict[str, str]:
        """The files that decide the environment's behavior, each with its hash: code of coevolve, or a whole other package."""
        return sources(one.__module__ for one in type(self).__mro__ if issubclass(one, Environment))


def check_owner(task: Task, name: str) -> None:
    """Raise a CoevolveError if ``task`` belongs to another environment than ``name``."""
    if task.environment != name:
        raise CoevolveError(f"task {task.task_id} belongs to environment {task.environment!r}, expected {name!r}")


def quarantined(environment: Environment, tasks: Iterable[Task]) -> set[str]:
    """The ids of the ``tasks`` that are known to be unsolvable."""
    return {task.task_id for task in tasks if task.world.get("id") in environment.quarantine}

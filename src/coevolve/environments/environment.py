"""What the loop asks of a world: an environment, which knows its tasks, and sessions, the episodes in it."""

import errno
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.lexicon import Meaning
from coevolve.environments.sources import sources

# of the machine: no space, no quota, a broken disk, no more files to open
MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE})


class EnvironmentFailed(RuntimeError):
    """Raised by a session for a failure that the agent may not have caused, such as a server that is gone.

    After a call of the agent it is a claim, which ``blameless`` checks.
    """


class SessionLost(EnvironmentFailed):
    """Raised by a worker's session that another session's call ended. Only workers know this, so no environment raises it."""


class NoRoom(EnvironmentFailed):
    """Raised by ``reset`` where a server works, but all of its sessions are in use."""


class FailureReason(StrEnum):
    """The reason why an episode says nothing about the agent."""

    START = "no session started"
    GONE = "no other session started either"
    LOST = "another session's call ended its process"
    MACHINE = "the machine has no space or no files left"


def blameless(error: BaseException, environment: "Environment", task: Task) -> FailureReason | None:
    """Why ``error``, which a session of ``task`` raised after a call, says nothing about the agent; None if the call is to blame.

    What follows from a call is the agent's. Otherwise an agent could take its failures out of the statistics by calls that
    break its session. So a session's own word does not excuse the agent: the environment failed if no new session starts.
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


@dataclass(frozen=True)
class Phrasebook:
    """How an environment's tools are spoken of; ``{argument}`` stands for an argument's description.

    ``actions``: tool → ways to ask for it. ``lookups``: tool → ways to describe what it finds.
    ``fields``: ``tool.field`` → ways to describe that field of what the lookup finds, and ``questions``: ways to ask
    for it.
    """

    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lookups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Session(ABC):
    """One episode at a time, never shared between threads."""

    @abstractmethod
    def reset(self, task: Task) -> Observation:
        """Start ``task`` from a fresh world; the first user turn, with the tools."""

    @abstractmethod
    def step(self, call: ToolCall) -> Observation:
        """Execute one call. The agent's mistakes come back as ``Observation.error``, never as exceptions.

        An exception ends the episode: ``blameless`` says whose fault it is.
        """

    @abstractmethod
    def say(self, text: str) -> Observation:
        """A message without a call: answered by the next user turn, or by the end (``done``)."""

    @abstractmethod
    def score(self) -> Score:
        """Judge the episode so far. Pure: callable at any time, any number of times."""

    @abstractmethod
    def digest(self) -> str:
        """Content hash of the world's mutable state: equal before and after a call that changed nothing.

        After ``reset`` it says which world a task starts in: verification knows a panel's world by it, however it is spelled.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of what the episode holds. A second time does nothing."""

    def begin_reply(self) -> None:
        """Comes before the calls of each reply that has any, for benchmarks that count replies; does nothing here."""
        return


class Environment(ABC):
    """A stateless catalogue of tasks, and the door to episodes.

    A subclass has a name, a fingerprint and panels, and says what its tasks and tools are and how an episode is opened.
    Everything else has a default.
    """

    name: str
    fingerprint: str  # package version + data hash; part of every lineage
    panels: tuple[str, ...]  # the frozen evaluation splits; "seed" is the training split

    license: str = "unknown"  # of its tasks, as an SPDX identifier, with what else who passes them on must know
    more_splits: tuple[str, ...] = ()  # that ``tasks`` knows besides
    capacity: int | None = None  # how many sessions can be open at once; None: as many as one likes
    quarantine: Mapping[str, str] = MappingProxyType({})  # items known to be unsolvable: ``id`` in a world → reason
    phrasebook: Phrasebook = Phrasebook()  # without it, tools are spoken of by their names
    goals: tuple[
        str, ...
    ] = ()  # kinds of tasks that it constructs itself; each of its tasks has its own among its tags

    @abstractmethod
    def load_tasks(self, split: str) -> Sequence[Task]:
        """The tasks of ``split``, which exists; always the same."""

    @abstractmethod
    def tools(self) -> Sequence[dict[str, Any]]:
        """OpenAI function schemas of every tool that any task may offer."""

    @abstractmethod
    def open(self) -> Session:
        """A new session; ``reset`` starts its first episode."""

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of ``split`` ("seed", a panel or one of ``more_splits``); an unknown one is a CoevolveError."""
        known = ("seed", *self.panels, *self.more_splits)
        if split not in known:
            raise CoevolveError(f"{self.name} has no split {split!r}; expected one of: {', '.join(known)}")
        return self.load_tasks(split)

    def of(self, task: Task) -> "Environment":
        """The environment that ``task`` belongs to: this one, unless it is a mixture."""
        return self

    def reference(self, task: Task) -> list[list[ToolCall]]:
        """The calls, turn by turn, that solve ``task``: those that it carries."""
        return task.reference

    def reading(self, task: Task) -> list[ToolCall] | None:
        """The calls that the words of ``task`` ask for in its world, where they are the environment's own and say so; here None.

        Never from the reference: verification plays them to see whether words and reference ask for the same.
        """
        return None

    def meaning(self, task: Task) -> Meaning | None:
        """What words can mean in the world of ``task``, and what its reference does in the same senses; here nothing is known."""
        return None

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """Where an exploration around ``task`` starts: another world of its kind, if there are any; here its own."""
        return task.world

    def construct(self, goal: str, seed: int) -> Task:
        """A task of the kind ``goal``, which is one of ``goals``; always the same. Its world alone gives the instruction at ``reset``."""
        raise CoevolveError(f"{self.name} constructs no tasks")

    def category(self, task: Task) -> str:
        """The line of a table of results that ``task`` belongs to; here its first tag."""
        return task.family or "other"

    def scenario(self, task: Task) -> str:
        """What ``task`` counts together with: a scenario succeeds if all of its tasks do. Here each is its own."""
        return task.task_id

    def sources(self) -> dict[str, str]:
        """The files that decide what happens here, each with its hash: our code, or all of a third party's package."""
        return sources(one.__module__ for one in type(self).__mro__ if issubclass(one, Environment))


def check_owner(task: Task, name: str) -> None:
    """A task of another environment than ``name`` is a CoevolveError."""
    if task.environment != name:
        raise CoevolveError(f"task {task.task_id} belongs to environment {task.environment!r}, expected {name!r}")


def quarantined(environment: Environment, tasks: Iterable[Task]) -> set[str]:
    """Ids of those that are known to be unsolvable."""
    return {task.task_id for task in tasks if task.world.get("id") in environment.quarantine}

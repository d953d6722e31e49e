"""The two protocols between this project and a world: a catalogue, and an episode in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task, ToolCall


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


@runtime_checkable
class Session(Protocol):
    """One episode at a time, never shared between threads.

    A session that has ``begin_reply()`` is told of every reply with calls before its calls come: for benchmarks that
    count replies.
    """

    def reset(self, task: Task) -> Observation:
        """Start ``task`` from a fresh world; the first user turn, with the tools."""
        ...

    def step(self, call: ToolCall) -> Observation:
        """Execute one call. The agent's mistakes come back as ``Observation.error``, never as exceptions."""
        ...

    def say(self, text: str) -> Observation:
        """A message without a call: answered by the next user turn, or by the end (``done``)."""
        ...

    def score(self) -> Score:
        """Judge the episode so far. Pure: callable at any time, any number of times."""
        ...

    def digest(self) -> str:
        """Content hash of the world's mutable state: equal before and after a call that changed nothing."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Environment(Protocol):
    """A stateless catalogue of tasks, and the door to episodes.

    What an environment may have besides: ``phrasebook`` (how its tools are spoken of, ``coevolve.environments.environment.Phrasebook``),
    ``fresh_world(task, seed)`` (another start state for exploration), ``category(task)`` (the line of a table of
    results; else its first tag), ``scenario(task)`` (tasks that count together), ``capacity`` (how many sessions can be
    open at once), ``quarantine`` (items known to be unsolvable, by the ``id`` in a task's world, with the reason).
    """

    name: str
    fingerprint: str  # package version + data hash; part of every lineage
    panels: tuple[str, ...]  # the frozen evaluation splits; "seed" is the training split

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of ``split`` ("seed" or a panel), always the same; an unknown split is a CoevolveError."""
        ...

    def tools(self) -> Sequence[dict[str, Any]]:
        """OpenAI function schemas of every tool that any task may offer."""
        ...

    def open(self) -> Session: ...

    def reference(self, task: Task) -> list[list[ToolCall]]:
        """The calls, turn by turn, that solve ``task``."""
        ...


def check_owner(task: Task, name: str) -> None:
    """A task of another environment than ``name`` is a CoevolveError."""
    if task.environment != name:
        raise CoevolveError(f"task {task.task_id} belongs to environment {task.environment!r}, expected {name!r}")


class Catalogue:
    """What environments share whose tasks carry their reference. A subclass has ``name``, ``panels``, ``_tasks``."""

    name: str
    panels: tuple[str, ...]
    more_splits: tuple[str, ...] = ()  # that ``tasks`` knows besides

    def tasks(self, split: str) -> Sequence[Task]:
        known = ("seed", *self.panels)
        if split not in (*known, *self.more_splits):
            raise CoevolveError(f"{self.name} has no split {split!r}; expected one of: {', '.join(known)}")
        return self._tasks(split)

    def _tasks(self, split: str) -> Sequence[Task]:
        raise NotImplementedError

    def reference(self, task: Task) -> list[list[ToolCall]]:
        return task.reference


def quarantined(environment: Environment, tasks: Iterable[Task]) -> set[str]:
    """Ids of those that are known to be unsolvable."""
    known = getattr(environment, "quarantine", {})
    return {task.task_id for task in tasks if task.world.get("id") in known}

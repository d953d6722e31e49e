"""Specs, the output of a generator: the tools that a task must use, in order, as JSON between two tags.

A spec holds tool names, which all environments have; exploring adds arguments, worlds and words. So small and large models write
the same format. Only ``json.loads`` reads it.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass

from coevolve.core.hashing import content_hash
from coevolve.core.records import Generation
from coevolve.core.task import Task

OPEN, CLOSE = "<spec>", "</spec>"
MOST = 4  # goals of a spec
LONGEST = 2000  # characters of a reply that are parsed

# reasons to refuse a spec
UNREADABLE, UNKNOWN = "unreadable", "unknown tool"


@dataclass(frozen=True, slots=True)
class Spec:
    """``goals``: tools to call once each, in order; ``ask``: a lookup whose answer the task asks for at the end, or None."""

    goals: tuple[str, ...]
    ask: str | None = None

    def __str__(self) -> str:
        return f"{OPEN}{json.dumps({'goals': list(self.goals), 'ask': self.ask})}{CLOSE}"


@dataclass(frozen=True, slots=True)
class Tools:
    """The vocabulary of specs: tools that can be goals, and lookups that can be asked.

    If the environment constructs its tasks, the goals are its kinds of tasks instead, and a spec has one goal.
    """

    goals: tuple[str, ...]
    lookups: tuple[str, ...]
    constructed: bool = False

    @property
    def most(self) -> int:
        """The largest number of goals in a spec."""
        return 1 if self.constructed else MOST

    def of(self, task: Task) -> list[str]:
        """The tools of ``task``, or its kinds, in its order."""
        return task.tags if self.constructed else task.tools


def exploration_of(generation: Generation) -> str:
    """The id of the exploration that tries the spec of ``generation``."""
    return content_hash(["exploration of", generation.generation_id])


def parse(text: str, tools: Tools) -> Spec | str:
    """The spec in ``text``, or the reason to refuse it. Never raises."""
    _, opened, rest = text[:LONGEST].partition(OPEN)
    body, closed, _ = rest.partition(CLOSE)
    if not opened or not closed:
        return UNREADABLE
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return UNREADABLE
    if not isinstance(value, dict) or set(value) - {"goals", "ask"}:
        return UNREADABLE
    goals, ask = value.get("goals"), value.get("ask")
    if not isinstance(goals, list) or not all(isinstance(goal, str) for goal in goals):
        return UNREADABLE
    if not (ask is None or isinstance(ask, str)) or len(goals) > tools.most or len(set(goals)) < len(goals):
        return UNREADABLE
    if not goals and ask is None:
        return UNREADABLE
    if set(goals) - set(tools.goals) or (ask is not None and ask not in tools.lookups):
        return UNKNOWN
    return Spec(tuple(goals), ask)


def named(names: Collection[str], tools: Tools) -> Spec | None:
    """The spec of a task that uses the tools ``names``, in their order; None if none of them is a goal or a lookup.

    A task that changes nothing asks for the answer of its last lookup.
    """
    goals = tuple(name for name in names if name in tools.goals)[: tools.most]
    lookups = [name for name in names if name in tools.lookups]
    if goals:
        return Spec(goals)
    return Spec((), lookups[-1]) if lookups else None

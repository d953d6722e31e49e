"""What a generator writes: which tools a task is to take, in order, as JSON between two tags.

Tool names are what the environments have in common; arguments, worlds and words come of exploring. So the same text serves a small
model and a large one. It is read by ``json.loads`` and by nothing else.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass

from coevolve.core.hashing import content_hash
from coevolve.core.records import Generation
from coevolve.core.task import Task

OPEN, CLOSE = "<spec>", "</spec>"
MOST = 4  # goals of a spec
LONGEST = 2000  # characters of a spec that are looked at

# why a spec is not taken
UNREADABLE, UNKNOWN, WITHHELD = "unreadable", "unknown tool", "withheld"


@dataclass(frozen=True, slots=True)
class Spec:
    """``goals``: tools to call, in order, each once; ``ask``: a tool for lookups whose answer is asked for at the end, or None."""

    goals: tuple[str, ...]
    ask: str | None = None

    def __str__(self) -> str:
        return f"{OPEN}{json.dumps({'goals': list(self.goals), 'ask': self.ask})}{CLOSE}"


@dataclass(frozen=True, slots=True)
class Tools:
    """Of an environment: tools that a goal can be, tools that can be asked, and those that synthesis may not use.

    Where the environment constructs tasks, a goal is one of its kinds instead, and a spec has one.
    """

    goals: tuple[str, ...]
    lookups: tuple[str, ...]
    withheld: frozenset[str] = frozenset()
    constructed: bool = False

    @property
    def most(self) -> int:
        """How many goals a spec has at most."""
        return 1 if self.constructed else MOST

    def of(self, task: Task) -> list[str]:
        """What ``task`` has of what goals and lookups are, in its order."""
        return task.tags if self.constructed else task.tools


def exploration_of(one: Generation) -> str:
    """The id of the exploration that tries what was written."""
    return content_hash(["exploration of", one.generation_id])


def parse(text: str, tools: Tools) -> Spec | str:
    """The spec that ``text`` holds, or in a word why it holds none that can be taken. Never raises."""
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
    if not isinstance(goals, list) or not all(isinstance(one, str) for one in goals):
        return UNREADABLE
    if not (ask is None or isinstance(ask, str)) or len(goals) > tools.most or len(set(goals)) < len(goals):
        return UNREADABLE
    if not goals and ask is None:
        return UNREADABLE
    return _known(Spec(tuple(goals), ask), tools)


def _known(spec: Spec, tools: Tools) -> Spec | str:
    asked = [spec.ask] if spec.ask is not None else []
    if any(name in tools.withheld for name in (*spec.goals, *asked)):
        return WITHHELD
    if set(spec.goals) - set(tools.goals) or set(asked) - set(tools.lookups):
        return UNKNOWN
    return spec


def named(names: Collection[str], tools: Tools) -> Spec | None:
    """The spec of a task that uses tools of these ``names``, in their order; None if none of them is a goal or a lookup.

    A task that changes nothing asks for what its last lookup finds.
    """
    goals = tuple(name for name in names if name in tools.goals)[: tools.most]
    lookups = [name for name in names if name in tools.lookups]
    if goals:
        return Spec(goals)
    return Spec((), lookups[-1]) if lookups else None

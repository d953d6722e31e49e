"""Specs, the output of a generator: the tools that a task must use, in order, as JSON between two tags; and their prompts.

A spec holds tool names, which all environments have; exploring adds arguments, worlds and words. So small and large models write
the same format. Only a reader of JSON reads it. A prompt asks to vary a task, given the agent's success at it and the tools that the
dataset seldom uses.
"""

import json
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from coevolve.core.hashing import content_hash
from coevolve.core.learnability import Record
from coevolve.core.records import Generation
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import Knowledge
from coevolve.prompts.prompt import prompt, quoted, quoted_name

OPEN, CLOSE = "<spec>", "</spec>"
MOST = 4  # goals of a spec
LONGEST = 2000  # characters of a reply that are parsed

# reasons to refuse a spec
UNREADABLE, UNKNOWN = "unreadable", "unknown tool"
DESCRIBED = 160  # characters of a tool's description
LISTED = 3  # seldom used tools in a prompt
# a description of the list of goals, and an example
SEVERAL = (f"1 to {MOST} different tools that the task must use, in order", '["first_tool", "second_tool"]')
ONE = ("exactly one kind of task", '["one_kind"]')
PARTS = 8  # a share of solved attempts is rounded to so many parts


@dataclass(frozen=True, slots=True)
class Spec:
    """``goals``: tools to call once each, in order; ``ask``: a lookup whose answer the task asks for at the end, or None."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    goals: tuple[str, ...]
    ask: str | None = None

    def __str__(self) -> str:
        return f"{OPEN}{json.dumps({'goals': list(self.goals), 'ask': self.ask})}{CLOSE}"


READER = TypeAdapter(Spec)


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
        spec = READER.validate_json(body)
    except ValidationError:
        return UNREADABLE
    goals, ask = spec.goals, spec.ask
    if len(goals) > tools.most or len(set(goals)) < len(goals) or (not goals and ask is None):
        return UNREADABLE
    if set(goals) - set(tools.goals) or (ask is not None and ask not in tools.lookups):
        return UNKNOWN
    return spec


def named(names: Collection[str], tools: Tools) -> Spec | None:
    """The spec of a task that uses the tools ``names``, in their order; None if none of them is a goal or a lookup.

    A task that changes nothing asks for the answer of its last lookup.
    """
    goals = tuple(name for name in names if name in tools.goals)[: tools.most]
    lookups = [name for name in names if name in tools.lookups]
    if goals:
        return Spec(goals)
    return Spec((), lookups[-1]) if lookups else None


@dataclass(frozen=True, slots=True)
class SpecRequest:
    """The contents of a prompt: the ``spec`` of the task to vary, its ``record``, and tools that the dataset seldom uses.

    ``success`` is the agent's recent success at all tasks, None if it is unknown.
    """

    spec: Spec
    record: Record
    success: float | None
    seldom: Sequence[str]

    def __str__(self) -> str:
        solved = round(PARTS * self.record.successes / self.record.attempts) if self.record.attempts else "?"
        agent = "?" if self.success is None else f"{self.success:.1f}"
        seldom = " ".join(self.seldom) or "none"
        # the spec comes last: its distance to the answer is constant, which makes it easy for a small model to copy
        return f"seldom {seldom}; agent {agent}; solved {solved} of {PARTS}; vary {self.spec}"


def tools(environment: Environment, knowledge: Knowledge) -> Tools:
    """The tools that specs may name: as for explorers, a goal is any tool except lookups and the tool that ends a task.

    If the environment constructs its tasks, the goals are the environment's own.
    """
    if environment.goals:
        return Tools(environment.goals, (), constructed=True)
    names = [tool["function"]["name"] for tool in environment.tools()]
    lookups = tuple(name for name in names if name in knowledge.reading)
    goals = tuple(name for name in names if name not in knowledge.reading and name != knowledge.terminal)
    return Tools(goals or tuple(names), lookups if knowledge.answer else ())


def seldom(tasks: Sequence[Task], vocabulary: Tools) -> list[str]:
    """The goals that the fewest of ``tasks`` use, sorted by name."""
    used = Counter(name for task in tasks for name in set(vocabulary.of(task)))
    return sorted(sorted(vocabulary.goals, key=lambda name: used[name])[:LISTED])


def seeds(
    tasks: Sequence[Task], vocabulary: Tools, visits: Counter[str], count: int, variations: int, rng: random.Random
) -> list[tuple[Task, Spec]]:
    """``count`` tasks to vary with their specs, each ``variations`` times in a row, drawn with weight 1/(1 + visits)."""
    able = [(task, spec) for task in tasks if (spec := named(vocabulary.of(task), vocabulary)) is not None]
    drawn: list[tuple[Task, Spec]] = []
    seen = Counter(visits)
    while able and len(drawn) < count:
        shares = [1.0 / (1 + seen[task.task_id]) for task, _ in able]
        task, spec = rng.choices(able, shares)[0]
        seen[task.task_id] += 1
        drawn += [(task, spec)] * variations
    return drawn[:count]


def system(schemas: Sequence[Mapping[str, Any]], vocabulary: Tools) -> str:
    """The system prompt of a model that was not trained on specs: the format, and a line for each tool or kind of task."""
    functions = [schema["function"] for schema in schemas]
    described = {function["name"]: quoted(str(function.get("description") or ""), DESCRIBED) for function in functions}
    tool_names = {*vocabulary.goals, *vocabulary.lookups}
    names = vocabulary.goals if vocabulary.constructed else [name for name in described if name in tool_names]
    lines = [f"- {quoted_name(name)}" + (f": {described[name]}" if name in described else "") for name in names]
    goals, example = ONE if vocabulary.constructed else SEVERAL
    return prompt("generate").fill(tools="\n".join(lines), goals=goals, example=example)

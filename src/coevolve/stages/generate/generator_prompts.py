"""Prompts for the generator: vary a task, given the agent's success at it and the tools that the dataset seldom uses."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.learnability import Record
from coevolve.core.records import Attempt
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import Knowledge
from coevolve.prompts.prompt import prompt, quoted, quoted_name
from coevolve.stages.generate.spec import MOST, Spec, Tools, named

DESCRIBED = 160  # characters of a tool's description
LISTED = 3  # seldom used tools in a prompt
# a description of the list of goals, and an example
SEVERAL = (f"1 to {MOST} different tools that the task must use, in order", '["first_tool", "second_tool"]')
ONE = ("exactly one kind of task", '["one_kind"]')
PARTS = 8  # a share of solved attempts is rounded to so many parts


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


def latest(attempts: Sequence[Attempt]) -> dict[str, Record]:
    """The record of each task's last visit, by task id; earlier visits are those of another agent."""
    return {attempt.task_id: Record(attempt.successes, attempt.size) for attempt in attempts}


def success(attempts: Sequence[Attempt], iteration: int) -> float | None:
    """The share of episodes of ``iteration`` that succeeded."""
    recent = [attempt for attempt in attempts if attempt.iteration == iteration]
    size = sum(attempt.size for attempt in recent)
    return sum(attempt.successes for attempt in recent) / size if size else None


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

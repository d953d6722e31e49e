"""What a generator is asked for: a variation of a task, given how the agent does at it and what the dataset lacks."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.learnability import Record
from coevolve.core.records import Attempt
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge
from coevolve.prompts.prompt import prompt, quoted, quoted_name
from coevolve.stages.generate.spec import MOST, Spec, Tools, named

DESCRIBED = 160  # characters of what an environment says of a tool
LISTED = 3  # tools that the dataset seldom uses
# what the list of goals holds, and an example of it
SEVERAL = (f"1 to {MOST} different tools that the task is to take, in order", '["first_tool", "second_tool"]')
ONE = ("the one kind of task that it is to be", '["one_kind"]')
PARTS = 8  # into which a share of solved attempts is rounded


@dataclass(frozen=True, slots=True)
class SpecRequest:
    """What a prompt says: the ``spec`` of the task to vary, how often it was solved, the agent's ``success`` at all tasks of late, None
    where that is not known, and tools that the dataset seldom uses.
    """

    spec: Spec
    record: Record
    success: float | None
    seldom: Sequence[str]

    def __str__(self) -> str:
        solved = round(PARTS * self.record.successes / self.record.attempts) if self.record.attempts else "?"
        agent = "?" if self.success is None else f"{self.success:.1f}"
        few = " ".join(self.seldom) or "none"
        # the spec comes last: as far from the answer, whatever else is said, and so easy for a small model to take over
        return f"seldom {few}; agent {agent}; solved {solved} of {PARTS}; vary {self.spec}"


def tools(environment: Environment, known: Knowledge, withheld: Sequence[str] = ()) -> Tools:
    """What specs may name: a goal is any tool but the one that ends a task and those that only look up, as for explorers; or, where the
    environment constructs its tasks, any of its own goals.
    """
    if environment.goals:
        return Tools(environment.goals, (), frozenset(withheld), constructed=True)
    names = [tool["function"]["name"] for tool in environment.tools()]
    lookups = tuple(name for name in names if name in known.reading)
    goals = tuple(name for name in names if name not in known.reading and name != known.terminal)
    return Tools(goals or tuple(names), lookups if known.answer else (), frozenset(withheld))


def seldom(tasks: Sequence[Task], known: Tools) -> list[str]:
    """The goals that the fewest of ``tasks`` use, in the order of their names."""
    used = Counter(name for task in tasks for name in set(known.of(task)))
    allowed = sorted(set(known.goals) - known.withheld)
    return sorted(sorted(allowed, key=lambda name: used[name])[:LISTED])


def latest(attempts: Sequence[Attempt]) -> dict[str, Record]:
    """By task, the record of its last visit alone: earlier ones are of another agent."""
    return {one.task_id: Record(one.successes, one.size) for one in attempts}


def success(attempts: Sequence[Attempt], iteration: int) -> float | None:
    """The share of episodes of ``iteration`` that succeeded."""
    made = [one for one in attempts if one.iteration == iteration]
    size = sum(one.size for one in made)
    return sum(one.successes for one in made) / size if size else None


def seeds(
    tasks: Sequence[Task], known: Tools, visits: Counter[str], count: int, variations: int, rng: random.Random
) -> list[tuple[Task, Spec]]:
    """``count`` tasks to vary with their specs, each ``variations`` times in a row: drawn by 1/(1 + visits so far)."""
    able = [(task, spec) for task in tasks if (spec := named(known.of(task), known)) is not None]
    found: list[tuple[Task, Spec]] = []
    seen = Counter(visits)
    while able and len(found) < count:
        shares = [1.0 / (1 + seen[task.task_id]) for task, _ in able]
        task, spec = rng.choices(able, shares)[0]
        seen[task.task_id] += 1
        found += [(task, spec)] * variations
    return found[:count]


def system(environment_tools: Sequence[Mapping[str, Any]], known: Tools) -> str:
    """What a model is told that was not made for this: the format, and each tool in a line, or each kind of task."""
    said = {
        one["function"]["name"]: quoted(str(one["function"].get("description") or ""), DESCRIBED)
        for one in environment_tools
    }
    names = known.goals if known.constructed else [one for one in said if one in {*known.goals, *known.lookups}]
    lines = [
        f"- {quoted_name(one)}" + (f": {said[one]}" if one in said else "")
        for one in names
        if one not in known.withheld
    ]
    goals, example = ONE if known.constructed else SEVERAL
    return prompt("generate").fill(tools="\n".join(lines), goals=goals, example=example)

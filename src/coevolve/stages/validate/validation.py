"""Great Expectations over the dataset of the next iteration, and over the indicators of the iteration that made it.

Rows that break an expectation go to quarantine with its name. The indicators are one row of a table: a broken limit is a
warning, and a broken critical limit stops the pipeline.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.expectations import Suites, Wanted, among, between, hashed, quarantined
from coevolve.core.io import flaw, parse
from coevolve.core.task import SCHEMA_VERSION, Task
from coevolve.environments.environment import Environment
from coevolve.stages.validate.config import LIMITS, Limit, Validate
from coevolve.stages.validate.indicators import Indicator

FEW_TOOLS = 5  # fewest tools for the balance of families: an environment with fewer may have a single family


@dataclass
class Validation:
    """``tasks`` are fit for training. ``quarantine`` holds the other rows, each with the expectations that it broke."""

    tasks: list[Task]
    families: Counter[str]
    quarantine: list[dict[str, Any]]
    indicators: list[Indicator]

    @property
    def critical(self) -> Indicator | None:
        """The first indicator that stops the pipeline."""
        return next((indicator for indicator in self.indicators if indicator.state == "critical"), None)


def expectations(config: Validate, environment: Environment) -> Wanted:
    """The expectations of rows."""
    return {
        "follows the schema": among("follows_schema", True),
        "has an id": ("ExpectColumnValuesToNotBeNull", {"column": "task_id"}),
        "id is a content hash": hashed("task_id"),
        "id is unique": among("copy", False),
        "is of this environment": among("environment", environment.name),
        "has a known schema version": among("schema_version", SCHEMA_VERSION),
        "instruction length": between("characters", 1, config.max_turn_characters),
        "reference length": between("calls", 1, config.max_calls),
        "knows every tool": among("unknown_tools", 0),
        "is in no panel": among("in_panel", False),
        "nobody rejects it": among("rejected", False),
    }


def limits(config: Validate, values: Mapping[str, float]) -> Wanted:
    """The expectations of the indicators ``values``, which are the columns of a table with one row."""
    wanted = {}
    for name in values:
        limit: Limit = getattr(config, name)
        for bound, severity in ((limit.limit, "warning"), (limit.critical, "critical")):
            if bound is not None:
                kind, arguments = between(name, *((bound, None) if limit.low_is_bad else (None, bound)))
                title = f"{name} within its {'critical ' * (severity == 'critical')}limit"
                wanted[title] = kind, {**arguments, "severity": severity}
    return wanted


def validate(
    rows: Sequence[Any],
    environment: Environment,
    panel_ids: Collection[str],
    config: Validate,
    docs: Path | None,
    rejected: Collection[str],
    split: str,
    measured: Mapping[str, float | None],
) -> Validation:
    """Judge ``rows`` (JSON values) and the ``measured`` indicators, and write Data Docs to the folder ``docs``.

    ``panel_ids`` are the ids of the panels' tasks, and ``rejected`` those that reviewers reject. The file may be as one-sided
    as those tasks of it that are the environment's own, from its training split ``split``.
    """
    suites = Suites(docs)
    tasks_by_row, facts = describe(rows, environment, panel_ids, rejected)
    outcomes = suites.run("rows", facts, expectations(config, environment))
    quarantine = quarantined(outcomes, rows)
    broken = {row["row"] for row in quarantine}
    tasks = {task.task_id: task for number, task in enumerate(tasks_by_row) if task and number not in broken}
    families = Counter(task.family for task in tasks.values())
    own = Counter(task.family for task in environment.tasks(split) if task.task_id in tasks)
    largest, own_largest = (max(one.values(), default=0) / max(one.total(), 1) for one in (families, own))
    balanced = len(environment.tools()) < FEW_TOOLS or largest <= own_largest
    found = {"tasks": len(tasks), "largest_family": None if balanced else largest, **measured}
    values = {name: float(value) for name in LIMITS if (value := found.get(name)) is not None}
    outcomes += suites.run("limits", [values], limits(config, values))
    suites.build_docs()
    past = {one.column: "critical" if one.critical else "limit" for one in outcomes if not one.success}
    chosen: list[tuple[str, Limit]] = [(name, getattr(config, name)) for name in values]
    indicators = [
        Indicator(name, values[name], limit.limit, limit.critical, past.get(name, "ok")) for name, limit in chosen
    ]
    return Validation(list(tasks.values()), families, quarantine, indicators)


def describe(
    rows: Sequence[Any], environment: Environment, panel_ids: Collection[str], rejected: Collection[str]
) -> tuple[list[Task | None], list[dict[str, Any]]]:
    """For each row of the file its task, and the facts that the expectations test.

    A row that does not fit the schema, or that no file can hold, has no task. Text from the file is escaped, because Data
    Docs insert values into their HTML unescaped.
    """
    tool_names = {schema["function"]["name"] for schema in environment.tools()}
    tasks, described, seen = list[Task | None](), list[dict[str, Any]](), set[str | None]()
    for number, value in enumerate(rows):
        record, task = value if isinstance(value, dict) and not flaw(value) else {}, None
        with suppress(CoevolveError):
            task = parse(Task, record, f"row {number}")
        version = record.get("schema_version", SCHEMA_VERSION)
        name = claim = record["task_id"] if isinstance(record.get("task_id"), str) else None
        if task is not None and claim != task.content_id:
            claim = f"{claim}, but the content is {task.content_id}"
        tasks.append(task)
        described.append(
            {
                "follows_schema": task is not None,
                "task_id": claim and escape(claim),
                "copy": claim is not None and claim in seen,
                "environment": escape(str(record.get("environment"))),
                "schema_version": version if isinstance(version, int) else escape(str(version)),
                "characters": max((len(turn) for turn in task.turns), default=0) if task else 0,
                "calls": len(task.calls) if task else 0,
                "unknown_tools": sum(call.name not in tool_names for call in task.calls) if task else 0,
                "in_panel": name in panel_ids,
                "rejected": name in rejected,
            }
        )
        seen.add(claim)
    return tasks, described

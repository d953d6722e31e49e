"""Great Expectations over the dataset of the next iteration.

Rows that break an expectation go to quarantine with its name. A failure of the whole file is critical and stops the
pipeline. This module repeats the near-duplicate and panel checks of verification on purpose: it is the last check before
training, for files of any origin.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.expectations import Expectation, ExpectationOutcome, Suites, among, between, hashed, quarantined
from coevolve.core.io import flaw, parse, write_json, write_jsonl, write_text
from coevolve.core.similarity import Index
from coevolve.core.task import SCHEMA_VERSION, Task, task_id_of
from coevolve.core.untrusted import markdown
from coevolve.environments.environment import Environment
from coevolve.environments.mixture import shares_of
from coevolve.stages.validate.config import Validate
from coevolve.stages.verify.judge import in_panel
from coevolve.stages.verify.library import Library

if TYPE_CHECKING:
    import pandas as pd

FEW_TOOLS = 5  # fewest tools for the balance of families: an environment with fewer may have a single family
COLUMNS = (
    "follows_schema",
    "task_id",
    "environment",
    "schema_version",
    "characters",
    "calls",
    "unknown_tools",
    "in_panel",
    "rejected",
    "near_duplicate",
    "family",
)


@dataclass
class Validation:
    """``tasks`` are fit for training. ``quarantine`` holds the other rows, each with the expectations that it broke."""

    tasks: list[Task]
    quarantine: list[dict[str, Any]]
    outcomes: list[ExpectationOutcome]
    metrics: dict[str, Any]

    @property
    def critical(self) -> ExpectationOutcome | None:
        return next(
            (
                outcome
                for outcome in self.outcomes
                if not outcome.success and (outcome.expectation.critical or outcome.error)
            ),
            None,
        )


def expectations(
    config: Validate, environment: Environment, own_share: float
) -> tuple[list[Expectation], list[Expectation]]:
    """The expectations of rows, and the expectations of the file without quarantined rows.

    Few tools make few families, so balance is expected only if there are enough tools. ``own_share`` is the share
    of the largest family among the environment's own tasks of the file, and the limit is never below it.
    """
    rows = [
        Expectation("follows the schema", *among("follows_schema", True)),
        Expectation("has an id", "ExpectColumnValuesToNotBeNull", {"column": "task_id"}),
        Expectation("id is a content hash", *hashed("task_id")),
        Expectation("id is unique", "ExpectColumnValuesToBeUnique", {"column": "task_id"}),
        Expectation("is of this environment", *among("environment", *shares_of(environment))),
        Expectation("has a known schema version", *among("schema_version", SCHEMA_VERSION)),
        Expectation("instruction length", *between("characters", 1, config.max_turn_characters)),
        Expectation("reference length", *between("calls", 1, config.max_calls)),
        Expectation("knows every tool", *among("unknown_tools", 0)),
        Expectation("is in no panel", *among("in_panel", False)),
        Expectation("nobody rejects it", *among("rejected", False)),
    ]
    file = [
        Expectation(
            "enough tasks", "ExpectTableRowCountToBeBetween", {"min_value": config.min_rows, "max_value": None}, True
        ),
        Expectation(
            "few near-duplicates",
            "ExpectColumnMeanToBeBetween",
            {"column": "near_duplicate", "min_value": 0.0, "max_value": config.max_near_duplicates},
            True,
        ),
    ]
    if len(environment.tools()) >= FEW_TOOLS:
        file.append(
            Expectation(
                "no family dominates",
                "ExpectColumnMaxToBeBetween",
                {"column": "family_share", "min_value": 0.0, "max_value": max(config.max_family_share, own_share)},
                True,
            )
        )
    return rows, file


def validate(
    rows: Sequence[Any],
    environment: Environment,
    panels: Mapping[str, Sequence[Task]],
    config: Validate,
    near_duplicate: float,
    docs: Path | None = None,
    rejected: Collection[str] = (),
    *,
    split: str = "seed",
) -> Validation:
    """Judge ``rows`` (JSON values) and write Data Docs to the folder ``docs``.

    ``near_duplicate`` is the similarity from which two instructions count as near-duplicates. ``rejected`` holds the
    ids of tasks that reviewers reject. Tasks of the training split ``split`` are the environment's own.
    """
    tasks_by_row = [_task(row, number) for number, row in enumerate(rows)]
    library = Library([task for task in tasks_by_row if task is not None], panels, near_duplicate)
    own = {task.task_id: task for task in environment.tasks(split)}
    present = own.keys() & {_content(task) for task in tasks_by_row if task is not None}
    families = Counter(own[name].family for name in present)
    by_row, by_file = expectations(config, environment, max(families.values(), default=0) / max(families.total(), 1))
    frame = describe(rows, tasks_by_row, environment, library, own, near_duplicate, rejected)
    suites = Suites(docs)
    outcomes = suites.run("rows", frame, by_row)
    quarantine = quarantined(((outcome.expectation.name, _later_copies(outcome, frame)) for outcome in outcomes), rows)
    broken = {row["row"] for row in quarantine}
    good = [row for row in range(len(rows)) if row not in broken]
    kept = frame.iloc[good].reset_index(drop=True)
    outcomes += suites.run("file", _balance(kept), by_file)
    suites.build_docs()
    tasks = [parse(Task, rows[row], f"row {row}") for row in good]
    metrics = {
        "rows": len(rows),
        "tasks": len(tasks),
        "quarantined": len(quarantine),
        "near_duplicates": float(kept["near_duplicate"].mean()) if len(kept) else 0.0,
        "families": int(kept["family"].nunique()),
        "largest_family": float(kept["family_share"].max()) if len(kept) else 0.0,
        "expectations": {outcome.expectation.name: outcome.success for outcome in outcomes},
    }
    return Validation(tasks, quarantine, outcomes, metrics)


def describe(
    rows: Sequence[Any],
    tasks: Sequence[Task | None],
    environment: Environment,
    library: Library,
    own: Collection[str],
    near_duplicate: float,
    rejected: Collection[str],
) -> "pd.DataFrame":
    """For each row of the file, a row of the facts that the expectations test.

    ``tasks`` are the rows as tasks, and ``library`` holds the panels. ``own`` holds the ids of the environment's own training
    tasks, which may be similar to a panel. ``rejected`` holds ids of tasks that reviewers reject.
    Text from the file is escaped, because Data Docs insert values into their HTML unescaped.
    """
    import pandas as pd

    tool_names = {schema["function"]["name"] for schema in environment.tools()}
    environments = shares_of(environment)
    index = Index(near_duplicate)
    described = []
    for number, (value, task) in enumerate(zip(rows, tasks, strict=True)):
        record = value if isinstance(value, dict) and not flaw(value) else {}
        name, version = record.get("task_id"), record.get("schema_version", SCHEMA_VERSION)
        calls = task.calls if task else []
        text = "\n".join(task.turns) if task else ""
        known = isinstance(name, str) and library.has_panel_id(name)
        if not known and task is not None and task.environment in environments and _content(task) not in own:
            known = in_panel(environment, library, task)
        described.append(
            {
                "follows_schema": task is not None,
                "task_id": escape(_claim(name, task)) if isinstance(name, str) else None,
                "environment": escape(str(record.get("environment"))),
                "schema_version": version if isinstance(version, int) else escape(str(version)),
                "characters": max((len(turn) for turn in task.turns), default=0) if task else 0,
                "calls": len(calls),
                "unknown_tools": sum(call.name not in tool_names for call in calls),
                "in_panel": known,
                "rejected": isinstance(name, str) and name in rejected,
                "near_duplicate": float(bool(text) and index.nearest(text) is not None),
                "family": task.family if task else "",
            }
        )
        if text:
            index.add(str(number), text)
    return _balance(pd.DataFrame(described, columns=list(COLUMNS)))


def _content(task: Task) -> str:
    """The hash of the content of ``task``, which its id must equal."""
    return task_id_of(task.environment, task.world, task.turns, task.reference)


def _claim(name: str, task: Task | None) -> str:
    """The id ``name``, or a text that is no valid id if ``name`` is not the hash of the content of ``task``."""
    return name if task is None or name == _content(task) else f"{name}, but the content is {_content(task)}"


def _task(row: Any, number: int) -> Task | None:
    """The task in ``row``; None if the row does not fit the schema, or if no file can hold it."""
    try:
        return parse(Task, row, f"row {number}") if isinstance(row, dict) and not flaw(row) else None
    except CoevolveError:
        return None


def _balance(frame: "pd.DataFrame") -> "pd.DataFrame":
    """``frame`` with the share of each row's family."""
    counts = Counter(frame["family"])
    return frame.assign(family_share=[counts[family] / len(frame) for family in frame["family"]])


def _later_copies(outcome: ExpectationOutcome, frame: "pd.DataFrame") -> list[int]:
    """The rows to quarantine: all that ``outcome`` names, except the first row of each id if ids repeat."""
    if outcome.expectation.name != "id is unique":
        return outcome.rows
    first = {frame["task_id"][row]: row for row in sorted(outcome.rows, reverse=True)}
    return [row for row in outcome.rows if first[frame["task_id"][row]] != row]


def write(folder: Path, validation: Validation, name: str) -> None:
    """Write report.md, quarantine.jsonl and metrics.json."""
    write_jsonl(folder / "quarantine.jsonl", validation.quarantine)
    write_json(folder / "metrics.json", validation.metrics)
    write_text(folder / "report.md", report(validation, name))


def report(validation: Validation, name: str) -> str:
    """The report as Markdown. Unlike Data Docs, it needs no network for its styles."""
    metrics = validation.metrics
    lines = [
        f"# {name}",
        "",
        f"{metrics['tasks']} tasks of {metrics['families']} families; {metrics['quarantined']} of {metrics['rows']} "
        "rows are in quarantine.",
        "",
        "| expectation | of | outcome |",
        "|---|---|---|",
    ]
    for outcome in validation.outcomes:
        result = (
            "holds" if outcome.success else outcome.error or (f"{len(outcome.rows)} rows" if outcome.rows else "fails")
        )
        observed = f" ({outcome.observed:.3g})" if isinstance(outcome.observed, int | float) else ""
        lines.append(
            f"| {outcome.expectation.name} | {'file' if outcome.expectation.critical else 'row'} | {result}{observed} |"
        )
    families = Counter(task.family for task in validation.tasks)
    lines += ["", "| largest families | tasks |", "|---|---|"]
    lines += [
        f"| {markdown(family)} | {count} |"
        for family, count in sorted(families.items(), key=lambda x: (-x[1], x[0]))[:10]
    ]
    if validation.quarantine:
        lines += ["", "| row in quarantine | broke | record |", "|---|---|---|"]
        for row in validation.quarantine[:20]:
            text = json.dumps(row["record"])[:80].replace("|", "\\|").replace("`", "'")
            lines.append(f"| {row['row']} | {', '.join(row['expectations'])} | `{text}` |")
    return "\n".join(lines) + "\n"

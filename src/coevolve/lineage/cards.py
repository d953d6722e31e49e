"""Write cards in Markdown for the Hugging Face hub: of a dataset of tasks or episodes, and of a policy."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.audit.subject import Audit
from coevolve.core.io import parse, read_json
from coevolve.core.task import Task
from coevolve.core.untrusted import markdown
from coevolve.environments.environment import Environment
from coevolve.lineage.ancestry import of_policy
from coevolve.stages.report.run_summary import Summary

Table = tuple[str, str, list[tuple[str, int]]]  # titles of both columns, and the rows

TASKS = (
    "`turns` are the user's messages, `reference` holds the calls that solve a task,\nand `world` is its start state. "
    "The environment executed and judged each reference. `coevolve verify` checks them again."
)


def task_card(rows: Sequence[Task], environment: Environment, run: str, audit: Path, file: str = "tasks.jsonl") -> str:
    """The card of the tasks in ``file``: counts, origins, license, and the findings of an audit of the environment."""
    origins = Counter("seed" if row.provenance is None else f"iteration {row.provenance.iteration}" for row in rows)
    tables = [
        ("from", "tasks", sorted(origins.items())),
        ("most frequent kinds", "tasks", _frequent(row.family for row in rows)),
    ]
    return _dataset_card("tasks", file, len(rows), TASKS, tables, environment, run, audit)


def episode_card(
    unit: str, origin: str, rows: Sequence[Mapping[str, Any]], environment: Environment, run: str, audit: Path
) -> str:
    """The card of ``rows`` of chat messages. ``unit`` is what a row is, ``origin`` a sentence about where the rows come from."""
    columns = [f"`{key}`" for key in rows[0] if key in ("messages", "prompt", "chosen", "rejected", "tools")]
    about = (
        f"{origin}\n{', '.join(columns)} have OpenAI's format, with calls as objects in `tool_calls`. "
        "`task_id` names the task of a row."
    )
    kinds = Counter(str(row["kind"]) for row in rows if "kind" in row)
    tables: list[Table] = [("kinds of pairs", unit, sorted(kinds.items()))] if kinds else []
    tools = (call["function"]["name"] for row in rows for call in _calls(row))
    tables.append(("most frequent tools", "calls", _frequent(tools)))
    return _dataset_card(unit, "train.jsonl", len(rows), about, tables, environment, run, audit)


def _calls(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The calls of an episode, or of the preferred side of a pair."""
    for message in row.get("messages") or row.get("chosen") or ():
        yield from message.get("tool_calls", ())


def _frequent(names: Iterable[str]) -> list[tuple[str, int]]:
    counts = Counter(name or "none" for name in names)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:10]


def _dataset_card(
    unit: str,
    file: str,
    count: int,
    about: str,
    tables: Sequence[Table],
    environment: Environment,
    run: str,
    path: Path,
) -> str:
    known = re.fullmatch(r"[A-Za-z0-9.-]{1,64}", environment.license)
    audit = parse(Audit, read_json(path), str(path)) if path.exists() else None
    if audit is not None and audit.fingerprint != environment.fingerprint:
        audit = None
    return _card(
        "dataset_card.md.j2",
        license=environment.license.lower() if known else "other",
        unit=unit,
        file=file,
        count=count,
        about=about,
        tables=tables,
        environment=environment,
        run=run,
        audit=audit,
        findings=[one for one in audit.findings if one.number and one.severity in ("fail", "warn")] if audit else [],
    )


def policy_card(t: int, summary: Summary, params: Mapping[str, Any]) -> str:
    """A model's card: its success on the frozen panels, its training data, and the parameters."""
    return _card("policy_card.md.j2", t=t, summary=summary, params=params, trace=[of_policy(t)])


def _card(template: str, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("coevolve.lineage", "")
    pages = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    pages.filters |= {"markdown": markdown, "json": json.dumps}
    return pages.get_template(template).render(**values)

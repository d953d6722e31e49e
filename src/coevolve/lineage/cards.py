"""Write cards in Markdown for the Hugging Face hub: of a dataset of tasks, and of a policy."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.audit.finding import Audit
from coevolve.core.io import parse, read_json
from coevolve.core.task import Task
from coevolve.core.untrusted import markdown
from coevolve.environments.environment import Environment
from coevolve.lineage.ancestry import Node, of_policy
from coevolve.stages.report.run_summary import Summary

SIZES = (  # the hub's names
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
)


def task_card(rows: Sequence[Task], environment: Environment, run: str, audit: Path, file: str = "tasks.jsonl") -> str:
    """The card of the tasks in ``file``: counts, origins, license, and the findings of an audit of the environment."""
    origins = Counter("seed" if one.provenance is None else f"iteration {one.provenance.iteration}" for one in rows)
    about = [
        f"For tool-using agents, in {markdown(environment.fingerprint, 500)}. `turns` are the user's messages, `reference` holds the calls that solve a task,",
        "and `world` is its start state. The environment executed and judged each reference. `coevolve import tasks` reads the tasks back.",
    ]
    tables = [
        *_table("from", "tasks", sorted(origins.items())),
        *_table("most frequent kinds", "tasks", _frequent(one.family for one in rows)),
    ]
    return _dataset_card("tasks", file, len(rows), about, tables, environment, run, audit)


def episode_card(
    unit: str, origin: str, rows: Sequence[Mapping[str, Any]], environment: Environment, run: str, audit: Path
) -> str:
    """The card of ``rows`` of chat messages. ``unit`` is what a row is, ``origin`` a sentence about where the rows come from."""
    columns = [f"`{key}`" for key in rows[0] if key in ("messages", "prompt", "chosen", "rejected", "tools")]
    about = [
        f"For tool-using agents, in {markdown(environment.fingerprint, 500)}. {origin}",
        f"{', '.join(columns)} have OpenAI's format, with calls as objects in `tool_calls`. `task_id` names the task of a row.",
    ]
    tools = Counter(one["function"]["name"] for row in rows for one in _calls(row))
    kinds = Counter(str(row["kind"]) for row in rows if "kind" in row)
    tables = [
        *(_table("kinds of pairs", unit, sorted(kinds.items())) if kinds else []),
        *_table("most frequent tools", "calls", _frequent(tools.elements())),
    ]
    return _dataset_card(unit, "train.jsonl", len(rows), about, tables, environment, run, audit)


def _calls(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The calls of an episode, or of the preferred side of a pair."""
    for message in row.get("messages") or row.get("chosen") or ():
        yield from message.get("tool_calls", ())


def _dataset_card(
    unit: str,
    file: str,
    count: int,
    about: Sequence[str],
    tables: Sequence[str],
    environment: Environment,
    run: str,
    audit: Path,
) -> str:
    size = next(name for limit, name in SIZES if count < limit)
    known = environment.license if re.fullmatch(r"[A-Za-z0-9.-]{1,64}", environment.license) else "other"
    lines = [
        "---",
        f'license: "{known.lower()}"',  # in quotes, or YAML would read `no` and 1.0 as other values
        f"size_categories: ['{size}']",
        "tags: [agents, tool-use, coevolve]",
        f"configs: [{{config_name: default, data_files: {file}}}]",
        "---",
        "",
        f"# {count} {unit} in {markdown(environment.name)}",
        "",
        *about,
        f"License of their source: {markdown(environment.license)}. Run: {run}.",
        "",
        *tables,
        *_audited(audit, environment),
    ]
    return "\n".join(lines) + "\n"


def _table(name: str, unit: str, counts: Iterable[tuple[str, int]]) -> list[str]:
    return [f"| {name} | {unit} |", "|---|---|", *(f"| {markdown(key)} | {count} |" for key, count in counts), ""]


def _frequent(names: Iterable[str]) -> list[tuple[str, int]]:
    counts = Counter(name or "none" for name in names)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:10]


def _audited(file: Path, environment: Environment) -> list[str]:
    audit = parse(Audit, read_json(file), str(file)) if file.exists() else None
    if audit is None or audit.fingerprint != environment.fingerprint:
        return [
            f"No audit of {markdown(environment.name)} was found on the machine of this export (`coevolve env audit`)."
        ]
    past = [one for one in audit.findings if one.bad and one.severity in ("fail", "warn")]
    if not past:
        return ["An audit of the environment found nothing worse than `advisory`."]
    return [
        f"An audit of {markdown(audit.fingerprint, 500)} found:",
        "",
        *(
            f"- {markdown(one.check)} ({one.severity}): {markdown(one.question)} {one.number} violations"
            for one in past
        ),
    ]


def policy_card(t: int, summary: Summary, changes: Mapping[str, Any]) -> str:
    """A model's card: its success on the frozen panels, its training data, and the parameters."""
    panels = summary.policies[t]
    lines = [
        "---",
        "tags: [agents, tool-use, coevolve]",
        "pipeline_tag: text-generation",
        "---",
        "",
        f"# Policy {t} of a coevolve run on {markdown(summary.environment)}",
        "",
        f"Made from `{changes['base']['model']}`, whose license applies to this model too.",
        f"Run {summary.run}, seed {summary.seed}, computed by {summary.arithmetic}.",
        "",
        f"| panel | success | {summary.confidence:.0%} interval | tasks |",
        "|---|---|---|---|",
        *(
            f"| {markdown(name)} | {one.success:.3f} | {one.low:.3f} to {one.high:.3f} | {one.tasks} |"
            for name, one in panels.items()
        ),
        "",
        "## Training data",
        "",
        *_walk(of_policy(t)),
        "",
        "## Parameters",
        "",
        *(f"- `{key}`: {json.dumps(value)}" for key, value in changes.items()),
    ]
    return "\n".join(lines) + "\n"


def _walk(node: Node, depth: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth}- {markdown(node.text, 500)}"
    for child in node.children:
        yield from _walk(child, depth + 1)

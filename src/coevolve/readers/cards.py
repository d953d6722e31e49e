"""Cards in Markdown, as the Hugging Face hub shows them: of a dataset of tasks, and of a policy."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.io import read_json
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.readers.lineage import Node, of_policy
from coevolve.stages.report.summary import Summary

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**9, "n>100K"))  # as the hub names them


def task_card(rows: Sequence[Task], environment: Environment, run: str, audit: Path) -> str:
    """A dataset's card: counts, where the tasks come from, their licence, and what an audit of the environment found."""
    origins = Counter("seed" if one.provenance is None else f"iteration {one.provenance.iteration}" for one in rows)
    families = Counter(one.family or "none" for one in rows)
    size = next(name for limit, name in SIZES if len(rows) < limit)
    known = environment.license if environment.license.replace("-", "").replace(".", "").isalnum() else "other"
    lines = [
        "---",
        f"license: {known.lower()}",
        f"size_categories: ['{size}']",
        "tags: [agents, tool-use, coevolve]",
        "configs: [{config_name: default, data_files: tasks.jsonl}]",
        "---",
        "",
        f"# {len(rows)} tasks in {environment.name}",
        "",
        f"For tool-using agents, in `{environment.fingerprint}`. `turns` are the user's messages, `reference` the calls that solve a task,",
        "`world` what the environment starts it from; each reference was executed and judged there. `coevolve import tasks` reads them back.",
        f"Licence of their source: {environment.license}. Run: {run}.",
        "",
        "| from | tasks |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(origins.items())),
        "",
        "| most frequent kinds | tasks |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(families.items(), key=lambda one: (-one[1], one[0]))[:10]),
        "",
        *_audited(audit, environment),
    ]
    return "\n".join(lines) + "\n"


def _audited(file: Path, environment: Environment) -> list[str]:
    if not file.exists():
        return [
            f"The environment was not audited on the machine that exported this: `coevolve env audit {environment.name}`."
        ]
    found = read_json(file)
    wrong = [
        one for one in found["findings"] if one["status"] in ("fail", "error") and one["severity"] in ("fail", "warn")
    ]
    said = [f"- `{one['check']}` ({one['severity']}): {one['question']} {one['number']} against it" for one in wrong]
    return (
        [f"An audit of `{found['fingerprint']}` found:", "", *said]
        if said
        else ["An audit of the environment found nothing past `advisory`."]
    )


def policy_card(t: int, summary: Summary, changes: Mapping[str, Any]) -> str:
    """A model's card: what it solves on the frozen panels, which data made it, and the parameters."""
    panels = summary.policies[t]
    lines = [
        "---",
        "tags: [agents, tool-use, coevolve]",
        "pipeline_tag: text-generation",
        "---",
        "",
        f"# Policy {t} of a coevolve run on {summary.environment}",
        "",
        f"Made from `{changes['base']['model']}`, whose licence holds for it too.",
        f"Run {summary.run}, seed {summary.seed}, computed by {summary.arithmetic}.",
        "",
        f"| panel | success | {summary.confidence:.0%} interval | tasks |",
        "|---|---|---|---|",
        *(
            f"| {name} | {one.success:.3f} | {one.low:.3f} to {one.high:.3f} | {one.tasks} |"
            for name, one in panels.items()
        ),
        "",
        "## Which data made it",
        "",
        *_walk(of_policy(t)),
        "",
        "## Parameters",
        "",
        *(f"- `{key}`: {json.dumps(value)}" for key, value in changes.items()),
    ]
    return "\n".join(lines) + "\n"


def _walk(node: Node, depth: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth}- {node.text}"
    for child in node.children:
        yield from _walk(child, depth + 1)

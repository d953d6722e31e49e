"""The files about grown tasks: lineage.jsonl, back to the rollouts, and one page without scripts or network."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.io import read_jsonl, read_jsonl_objects, read_tasks, write_jsonl, write_text
from coevolve.core.records import Exploration, Signal, Verdict
from coevolve.core.task import Task
from coevolve.core.untrusted import one_line
from coevolve.stages.report.page.html_page import html_page
from coevolve.stages.signals.strongest import strongest, subject
from coevolve.stages.verify.judge import unchecked

SHOWN = 300  # most tasks and rejections on the page


def lineage(
    folder: Path,
    tasks: Sequence[Task],
    explorations: Sequence[Exploration],
    signals: Sequence[Signal],
    verdicts: Sequence[Verdict],
) -> None:
    """Write lineage.jsonl: task → candidate → exploration → signals → rollouts, as addresses in the trainer's files."""
    by_exploration = {exploration.exploration_id: exploration for exploration in explorations}
    by_signal = {signal.signal_id: signal for signal in signals}
    candidates = {verdict.task_id: verdict.candidate_id for verdict in verdicts if verdict.accepted}
    rows = []
    for task in tasks:
        origin = task.provenance
        exploration = by_exploration.get(origin.exploration_id) if origin else None
        causes = [by_signal[name] for name in origin.signal_ids if name in by_signal] if origin else []
        rows.append(
            {
                "task_id": task.task_id,
                "candidate_id": candidates.get(task.task_id),
                "exploration_id": origin.exploration_id if origin else None,
                "explorer": exploration.explorer if exploration else None,
                "parent_task_id": origin.parent_task_id if origin else None,
                "pass_rate": origin.pass_rate if origin else None,
                "signals": [
                    {"signal_id": signal.signal_id, "kind": signal.kind, "strength": signal.strength}
                    for signal in causes
                ],
                "rollouts": list(dict.fromkeys(name for signal in causes for name in signal.trajectory_ids)),
            }
        )
    write_jsonl(folder / "lineage.jsonl", rows)


def page(folder: Path, environment: str, known: Sequence[Task], facts: Mapping[str, Any], policy: str | None) -> None:
    """Write index.html from the files in ``folder``."""
    tasks = read_tasks(folder / "tasks.jsonl")
    verdicts = read_jsonl(folder / "verdicts.jsonl", Verdict)
    signals = read_jsonl(folder / "signals.jsonl", Signal)
    words = {task.task_id: " / ".join(task.turns) for task in known}
    origins = {row["task_id"]: row for _, row in read_jsonl_objects(folder / "lineage.jsonl")}
    skipped = sum(1 for _ in read_jsonl_objects(folder / "skipped.jsonl"))
    refusals = [(verdict, verdict.refusal) for verdict in verdicts if verdict.refusal is not None]
    view = {
        "environment": environment,
        "facts": facts,
        "skipped": skipped,
        "kinds": Counter(signal.kind for signal in signals),
        "signals": [
            (signal, subject(signal, words), one_line(", ".join(signal.trajectory_ids[:4])))
            for signal in strongest(signals)
        ],
        "tasks": [
            {
                "words": one_line(" / ".join(task.turns), 300),
                "calls": ", ".join(call.name for call in task.calls),
                "rate": task.provenance.pass_rate if task.provenance else None,
                "parent": one_line(words.get(origins[task.task_id]["parent_task_id"] or "", ""), 120),
                "signals": ", ".join(dict.fromkeys(signal["kind"] for signal in origins[task.task_id]["signals"])),
                "rollouts": [one_line(name) for name in origins[task.task_id]["rollouts"][:4]],
                "id": task.task_id,
            }
            for task in tasks[:SHOWN]
        ],
        "count": len(tasks),
        "families": len({task.family for task in tasks}),
        "verdicts": len(verdicts),
        "gates": Counter(gate.name for _, gate in refusals).most_common(),
        "unchecked": unchecked(verdicts).most_common(),
        "refusals": [
            (verdict.candidate_id, gate.name, one_line(gate.reason, 300)) for verdict, gate in refusals[:SHOWN]
        ],
        "policy": policy,
        "shown": SHOWN,
    }
    write_text(folder / "index.html", html_page("coevolve.rollouts", "grown.html.j2", **view))

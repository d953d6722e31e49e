"""The report page's questions to people about the loop's tasks, and their decisions: see ``coevolve review``."""

from collections.abc import Mapping
from typing import Any

from coevolve.core.io import read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Candidate, Verdict
from coevolve.core.reviews import DECISIONS, Review, agreed, by_gate, decided, read_reviews
from coevolve.core.seeding import derive_seed
from coevolve.stages.report.page.verification import read_verdicts

ASKED = 24  # most tasks to ask about


def asked(last: int) -> dict[str, Any] | None:
    """A random sample of undecided tasks of the last iteration, and the agreement so far. None without either."""
    decisions = decided(read_reviews())
    verdicts = {t: read_verdicts(t) for t in range(last)}
    counts = by_gate((verdict for batch in verdicts.values() for verdict in batch), decisions)
    same, total = agreed(counts)
    tasks = _tasks(last - 1, verdicts[last - 1], decisions) if last else []
    if not tasks and not total:
        return None
    rows = [{"gate": gate, **{name: gate_counts[name] for name in DECISIONS}} for gate, gate_counts in counts.items()]
    return {"tasks": tasks, "rows": rows, "decisions": DECISIONS, "same": same, "total": total}


def _tasks(t: int, verdicts: list[Verdict], decisions: Mapping[str, Review]) -> list[dict[str, Any]]:
    file = Paths.candidates(t)
    rates = {
        verdict.candidate_id: verdict.pass_rate
        for verdict in verdicts
        if verdict.accepted and verdict.task_id not in decisions
    }
    candidates = read_jsonl(file, Candidate) if file.exists() else []
    undecided = [candidate for candidate in candidates if candidate.candidate_id in rates]
    drawn = sorted(undecided, key=lambda candidate: derive_seed("review", "page", t, candidate.task.task_id))[:ASKED]
    return [
        {
            "id": candidate.task.task_id,
            "rate": rates[candidate.candidate_id],
            "turns": [
                {"words": words, "calls": [_shown(call.name, call.arguments) for call in calls]}
                for words, calls in zip(candidate.task.turns, candidate.task.reference, strict=True)
            ],
        }
        for candidate in drawn
    ]


def _shown(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"

"""What the report page asks people about the tasks that the loop made, and what they said: see ``coevolve review``."""

from collections.abc import Mapping
from typing import Any

from coevolve.core.io import read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Candidate, Verdict
from coevolve.core.reviews import DECISIONS, Review, agreed, by_gate, decided, read_reviews
from coevolve.core.seeding import derive_seed

ASKED = 24  # tasks, at most


def asked(last: int) -> dict[str, Any] | None:
    """Tasks of the last iteration that nobody has decided on, drawn by chance, and the agreement so far. None without tasks."""
    decisions = decided(read_reviews())
    verdicts = {t: _read(t) for t in range(last)}
    counts = by_gate((one for found in verdicts.values() for one in found), decisions)
    same, total = agreed(counts)
    tasks = _tasks(last - 1, verdicts[last - 1], decisions) if last else []
    if not tasks and not total:
        return None
    rows = [{"gate": gate, **{name: found[name] for name in DECISIONS}} for gate, found in counts.items()]
    return {"tasks": tasks, "rows": rows, "decisions": DECISIONS, "same": same, "total": total}


def _read(t: int) -> list[Verdict]:
    file = Paths.verified(t) / "verdicts.jsonl"
    return read_jsonl(file, Verdict) if file.exists() else []


def _tasks(t: int, verdicts: list[Verdict], decisions: Mapping[str, Review]) -> list[dict[str, Any]]:
    file = Paths.candidates(t)
    accepted = {one.candidate_id: one for one in verdicts if one.accepted and one.task_id not in decisions}
    made = [one for one in (read_jsonl(file, Candidate) if file.exists() else []) if one.candidate_id in accepted]
    drawn = sorted(made, key=lambda one: derive_seed("review", "page", t, one.task.task_id))[:ASKED]
    return [
        {
            "id": one.task.task_id,
            "rate": accepted[one.candidate_id].pass_rate,
            "turns": [
                {"words": words, "calls": [_shown(call.name, call.arguments) for call in calls]}
                for words, calls in zip(one.task.turns, one.task.reference, strict=True)
            ],
        }
        for one in drawn
    ]


def _shown(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"

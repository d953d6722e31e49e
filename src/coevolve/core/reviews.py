"""What people decided of tasks: one file a reviewer in ``reviews``, a decision a line. Of a reviewer's, the last on a task counts."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.core.stage_summary import ACCEPTED
from coevolve.core.task import SCHEMA_VERSION, Task

Decision = Literal["accept", "reject", "reword"]
DECISIONS: tuple[Decision, ...] = ("accept", "reword", "reject")  # from mild to severe


@dataclass(frozen=True, slots=True)
class Review:
    """What ``reviewer`` decided of a task; ``turns`` are its new words, where it is reworded."""

    task_id: str
    decision: Decision
    reviewer: str
    reason: str = ""
    turns: list[str] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION


def file_of(reviewer: str) -> Path:
    """The file of a reviewer's decisions. Names that no file could have are a CoevolveError."""
    if not reviewer.replace("-", "").replace("_", "").isalnum() or len(reviewer) > 64:
        raise CoevolveError(f"reviewer {reviewer[:80]!r}: expected letters, digits, - and _; give one with --reviewer")
    return Paths.reviews / f"{reviewer}.jsonl"


def read_reviews() -> list[Review]:
    """Every reviewer's decisions, of each the last on a task; sorted by reviewer. None where there is no folder."""
    found: dict[tuple[str, str], Review] = {}
    for file in sorted(Paths.reviews.glob("*.jsonl")):
        for number, one in enumerate(read_jsonl(file, Review), 1):
            if one.decision == "reword" and not (one.turns and all(turn.strip() for turn in one.turns)):
                raise CoevolveError(f"{file}:{number}: reword without words; expected `turns`, a text for each turn")
            found[one.reviewer, one.task_id] = one
    return list(found.values())


def decided(reviews: Iterable[Review]) -> dict[str, Review]:
    """By task the decision that holds: the most severe, of equally severe ones the first reviewer's."""
    found: dict[str, Review] = {}
    for one in reviews:
        held = found.get(one.task_id)
        if held is None or DECISIONS.index(one.decision) > DECISIONS.index(held.decision):
            found[one.task_id] = one
    return found


def reworded(task: Task, review: Review) -> Task:
    """``task`` in the reviewer's words: another task, of the same world, reference and provenance."""
    if len(review.turns) != len(task.turns):
        raise CoevolveError(
            f"the review of task {task.task_id} by {review.reviewer} has {len(review.turns)} turns, the task {len(task.turns)}"
        )
    return Task.create(
        task.environment, task.split, review.turns, task.world, task.reference, task.tags, task.provenance
    )


def in_their_words(rows: Sequence[Any], decisions: Mapping[str, Review]) -> list[Any]:
    """``rows`` (JSON values of tasks) with those that are reworded in their new words; what is no task stays as it is."""
    return [_in_words(row, decisions) for row in rows]


def _in_words(row: Any, decisions: Mapping[str, Review]) -> Any:
    review = decisions.get(row["task_id"]) if isinstance(row, dict) and isinstance(row.get("task_id"), str) else None
    if review is None or review.decision != "reword":
        return row
    try:
        task = parse(Task, row, "task")
    except CoevolveError:
        return row  # the schema's expectation says what is wrong with it
    return json.loads(json.dumps(asdict(reworded(task, review))))


def by_gate(verdicts: Iterable[Verdict], decisions: Mapping[str, Review]) -> dict[str, Counter[Decision]]:
    """What people decided of the candidates that the gates accepted (key ACCEPTED) or that a gate refused (its name)."""
    found: dict[str, Counter[Decision]] = {}
    for one in verdicts:
        review = decisions.get(one.task_id or "")
        if review is not None:
            gate = one.refusal
            found.setdefault(gate.name if gate else ACCEPTED, Counter())[review.decision] += 1
    return found


def agreed(counts: Mapping[str, Mapping[Decision, int]]) -> tuple[int, int]:
    """Of ``by_gate``: on how many tasks gates and people agree, who both took it as it was or both did not; and of how many."""
    total = sum(sum(found.values()) for found in counts.values())
    same = sum(
        count
        for gate, found in counts.items()
        for one, count in found.items()
        if (gate == ACCEPTED) is (one == "accept")
    )
    return same, total

"""People's decisions on tasks: one file per reviewer in ``reviews``, one decision per line.

The file's name is the reviewer's name, so no reviewer decides for another. A reviewer's latest decision on a task wins.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_jsonl_objects
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.core.stage_summary import ACCEPTED
from coevolve.core.task import SCHEMA_VERSION, Task

Decision = Literal["accept", "reject", "reword"]
SOUND = ("selected",)  # gates that set a sound task apart
DECISIONS: tuple[Decision, ...] = ("accept", "reword", "reject")  # from mild to severe


@dataclass(frozen=True, slots=True)
class Review:
    """A decision of ``reviewer`` on a task. ``turns`` are the new words of a reworded task."""

    task_id: str
    decision: Decision
    reviewer: str
    reason: str = ""
    turns: list[str] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION


def file_of(reviewer: str) -> Path:
    """The file of a reviewer's decisions. An invalid file name is a CoevolveError."""
    if not reviewer.replace("-", "").replace("_", "").isalnum() or len(reviewer) > 64:
        raise CoevolveError(f"reviewer {reviewer[:80]!r}: expected letters, digits, - and _; give one with --reviewer")
    return Paths.reviews / f"{reviewer}.jsonl"


def read_reviews() -> list[Review]:
    """Every reviewer's latest decision on each task, sorted by reviewer. Empty without the folder ``reviews``."""
    latest: dict[tuple[str, str], Review] = {}
    for file in sorted(Paths.reviews.glob("*.jsonl")):
        for number, value in read_jsonl_objects(file):
            review = parse(Review, value, f"{file}:{number}")
            if review.reviewer != file.stem:
                raise CoevolveError(
                    f"{file}:{number}: reviewer {review.reviewer[:80]!r}: expected {file.stem!r}, the name of the file; "
                    "move the line to the reviewer's own file"
                )
            if review.decision == "reword" and not (review.turns and all(turn.strip() for turn in review.turns)):
                raise CoevolveError(f"{file}:{number}: reword without words; expected `turns`, a text for each turn")
            latest[review.reviewer, review.task_id] = review
    return list(latest.values())


def decided(reviews: Iterable[Review]) -> dict[str, Review]:
    """The valid decision on each task: the most severe. Among equally severe decisions the first reviewer's wins."""
    decisions: dict[str, Review] = {}
    for review in reviews:
        earlier = decisions.get(review.task_id)
        if earlier is None or DECISIONS.index(review.decision) > DECISIONS.index(earlier.decision):
            decisions[review.task_id] = review
    return decisions


def reworded(task: Task, review: Review) -> Task:
    """A new task in the reviewer's words, with the world, reference and provenance of ``task``."""
    if len(review.turns) != len(task.turns):
        raise CoevolveError(
            f"the review of task {task.task_id} by {review.reviewer} has {len(review.turns)} turns, the task {len(task.turns)}"
        )
    return Task.create(
        task.environment, task.split, review.turns, task.world, task.reference, task.tags, task.provenance
    )


def in_their_words(rows: Sequence[Any], decisions: Mapping[str, Review]) -> list[Any]:
    """``rows`` (JSON values of tasks) with new words for the reworded tasks. Rows that are not tasks stay as they are."""
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
    """People's decisions on the candidates, by the gate that refused them; key ACCEPTED if no gate did."""
    counts: dict[str, Counter[Decision]] = {}
    for verdict in verdicts:
        review = decisions.get(verdict.task_id or "")
        if review is not None:
            gate = verdict.refusal
            counts.setdefault(gate.name if gate else ACCEPTED, Counter())[review.decision] += 1
    return counts


def agreed(counts: Mapping[str, Mapping[Decision, int]]) -> tuple[int, int]:
    """From ``by_gate``: the number of tasks on which gates and people agree, and the number of all reviewed tasks.

    They agree if both accept the task unchanged, or if neither does. A gate of SOUND refuses no task.
    """
    total = sum(sum(decisions.values()) for decisions in counts.values())
    same = sum(
        count
        for gate, decisions in counts.items()
        for decision, count in decisions.items()
        if (gate in (ACCEPTED, *SOUND)) is (decision == "accept")
    )
    return same, total

"""People's decisions on tasks: a file per reviewer in the folder ``reviews``, a decision per line."""

from dataclasses import dataclass
from typing import Literal

from coevolve.core.io import parse, read_jsonl_objects
from coevolve.core.paths import Paths


@dataclass(frozen=True, slots=True)
class Review:
    task_id: str
    decision: Literal["accept", "reject"]


def rejected() -> set[str]:
    """The ids of tasks that at least one reviewer rejects. A reviewer's latest decision on a task wins.

    Empty without the folder ``reviews``.
    """
    ids: set[str] = set()
    for file in sorted(Paths.reviews.glob("*.jsonl")):
        reviews = (parse(Review, value, f"{file}:{number}") for number, value in read_jsonl_objects(file))
        latest = {review.task_id: review.decision for review in reviews}
        ids.update(name for name, decision in latest.items() if decision == "reject")
    return ids

"""Attempts: computed from the scores of a group, and read from a file.

Kept apart from io.py so that readers of other records do not depend on the success threshold.
"""

from collections.abc import Sequence
from math import fsum
from pathlib import Path

from coevolve.core.io import read_jsonl
from coevolve.core.records import Attempt
from coevolve.core.success import is_success


def attempt_of(task_id: str, iteration: int, step: int, scores: Sequence[float]) -> Attempt:
    """The attempt of episodes with these ``scores``. Their sum is exact, so their order does not matter."""
    mean = fsum(scores) / max(len(scores), 1)
    return Attempt(task_id, iteration, step, mean, len(scores), sum(map(is_success, scores)))


def read_attempts(path: Path) -> list[Attempt]:
    """The attempts of a file that hold episodes that count, in chronological order."""
    return [attempt for attempt in read_visits(path) if attempt.size]


def read_visits(path: Path) -> list[Attempt]:
    """All attempts of a file in chronological order, those in which the environment failed included."""
    return sorted(read_jsonl(path, Attempt), key=lambda attempt: (attempt.iteration, attempt.step))

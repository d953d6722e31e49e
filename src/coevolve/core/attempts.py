"""Attempts: from the scores of a group, and as a file. They know what success is, which who reads other records need not."""

from collections.abc import Sequence
from math import fsum
from pathlib import Path

from coevolve.core.io import read_jsonl
from coevolve.core.records import Attempt
from coevolve.core.success import is_success


def attempt_of(task_id: str, iteration: int, step: int, scores: Sequence[float]) -> Attempt:
    """The attempt of episodes with these ``scores``: their sum is exact, and so in any order the same."""
    return Attempt(task_id, iteration, step, fsum(scores) / len(scores), len(scores), sum(map(is_success, scores)))


def read_attempts(path: Path) -> list[Attempt]:
    """Visits of tasks, in the order in which they were made."""
    return sorted(read_jsonl(path, Attempt), key=lambda one: (one.iteration, one.step))

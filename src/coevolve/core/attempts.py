"""Attempts as a file. They know what success is; so what reads other records alone does not depend on it by ``io``."""

from pathlib import Path

from coevolve.core.io import read_jsonl
from coevolve.core.records import Attempt


def read_attempts(path: Path) -> list[Attempt]:
    """Visits of tasks, in the order in which they were made."""
    return sorted(read_jsonl(path, Attempt), key=lambda one: (one.iteration, one.step))

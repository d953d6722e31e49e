"""Verdicts on candidates from files or memory: `coevolve verify`, and `coevolve.verify` in Python."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.records import Candidate
from coevolve.core.task import Task
from coevolve.core.workers import Engine
from coevolve.environments.registry import make
from coevolve.stages.verify import judge
from coevolve.stages.verify.gates import WORDS
from coevolve.stages.verify.judge import Judged, read_lines
from coevolve.stages.verify.library import Library

Tasks = str | Path | Iterable[str | Path | Task]  # files, or tasks in memory
Row = Candidate | Task | Mapping[str, Any] | str  # a text is a line of a candidates file


def verify(
    environment: str,
    candidates: str | Path | Iterable[Row],
    *,
    known: Tasks = (),
    panels: Mapping[str, Tasks] | None = None,
    near_duplicate: float = 0.9,
    words: str = "language",
    engine: Engine | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> list[Judged]:
    """A verdict on each candidate, in order, with its task, which is None if the candidate cannot be read.

    ``candidates`` are a JSONL file, or records in memory: candidates, tasks, or their JSON. No candidate repeats a task of
    ``known`` or of the evaluation ``panels`` (name to tasks), or resembles one by at least ``near_duplicate``. ``words``
    says how `words_match` checks instructions: none, language or values. A bad candidate is rejected, never an error.

    This process judges all candidates unless ``engine`` has others. ``progress`` gets the number of candidates judged.
    """
    if words not in WORDS:
        raise CoevolveError(f"words: expected one of {', '.join(WORDS)}, found {words!r}")
    owner = make(environment).name  # an unknown name is one clear error, not a rejection of everything
    held_out = {name: tasks_of(tasks, owner) for name, tasks in (panels or {}).items()}
    library = Library(tasks_of(known, owner), held_out, near_duplicate)
    return judge.verify(environment, lines(candidates), library, engine=engine, words=words, progress=progress)


def lines(candidates: str | Path | Iterable[Row]) -> list[str]:
    """The candidates as JSON, one text each."""
    if isinstance(candidates, str | Path):
        return read_lines(Path(candidates))
    found = []
    for number, row in enumerate(candidates):
        try:
            found.append(row if isinstance(row, str) else json.dumps(row if isinstance(row, Mapping) else asdict(row)))
        except (TypeError, ValueError, RecursionError) as error:
            expected = "expected a Candidate, a Task, or JSON values"
            raise CoevolveError(f"candidates[{number}]: {error}; {expected}") from None
    return found


def by_name(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Panels by the names of their ``files``. Files of the same name in different folders are one panel."""
    found: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        found[file.stem].append(file)
    return dict(found)


def tasks_of(source: Tasks, environment: str) -> list[Task]:
    """The tasks of ``environment`` in ``source``."""
    entries = [source] if isinstance(source, str | Path) else source
    return [
        task
        for entry in entries
        for task in ([entry] if isinstance(entry, Task) else read_tasks(Path(entry), environment))
    ]

"""Signals in the trajectories of any trainer: `coevolve signals`, and `coevolve.signals` in Python."""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.io import write_jsonl
from coevolve.core.records import Attempt, Signal
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.core.yaml_files import validated
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.load import COLUMNS, HISTORY, REQUIRED, REQUIRED_HISTORY, Source, check_rows
from coevolve.stages.signals.rare import absence
from coevolve.stages.signals.table import open_table

DEFAULTS = Signals()
SOLVED, FAILED = "every episode succeeds", "no episode succeeds"

Record = Mapping[str, Any] | Trajectory | Attempt


def signals(
    trajectories: Source | Iterable[Record],
    *,
    history: str | Path | Iterable[Record] | None = None,
    window: int = DEFAULTS.window,
    rare_threshold: float = DEFAULTS.rare_threshold,
    kinds: Sequence[str] = tuple(DEFAULTS.kinds),
) -> list[Signal]:
    """The weaknesses that trajectories of any trainer show, each with its evidence.

    ``trajectories`` are files (a path, a glob, an address such as s3://bucket/*.parquet, or several), or records in
    memory: one per episode, with ``task_id``, ``step`` and ``score``. docs/python.md lists all keys. ``history`` holds
    earlier attempts, as a JSONL file or as records. The other arguments are the section `signals` of the parameters.
    """
    return list(stream(trajectories, history, window, rare_threshold, kinds))


def stream(
    trajectories: Source | Iterable[Record],
    history: str | Path | Iterable[Record] | None,
    window: int,
    rare_threshold: float,
    kinds: Sequence[str],
) -> Iterator[Signal]:
    """The signals one after another, in memory that does not grow with their number."""
    values = {"window": window, "rare_threshold": rare_threshold, "kinds": list(kinds)}
    config = validated(Signals, values, "")
    with tempfile.TemporaryDirectory(prefix="coevolve-records-") as folder:
        source = _source(trajectories, Path(folder) / "trajectories.jsonl")
        past = None if history is None else _path(history, Path(folder) / "history.jsonl")
        with open_table(source, past) as table:
            yield from extract(table, table.last_iteration(), config)


def absences(trajectories: Source, history: Path | None, rare_threshold: float, kinds: Sequence[str]) -> list[str]:
    """Why ``kinds`` fire nowhere, as far as the data rule them out: a line for each reason, with the kinds that it concerns."""
    with open_table(trajectories, history) as table:
        visits = list(table.visits())
        groups = [visit.attempt for visit in visits if visit.current]
        solved = [visit.attempt.successes or is_success(visit.attempt.score) for visit in visits]
        once = len({visit.attempt.task_id for visit in visits}) == len(visits)
        rare = absence(table, rare_threshold)
    # a kind has the first reason that holds
    reasons = {
        "forgetting": [
            (all(solved), SOLVED),
            (not any(solved), FAILED),
            (once, "every task has one visit, which is its episodes in one step"),
        ],
        "boundary": [
            (all(group.successes == group.size for group in groups), SOLVED),
            (not any(group.successes for group in groups), FAILED),
            (all(group.size < 2 for group in groups), "no task has two episodes in one step"),
        ],
        "rare": [(True, rare)],
    }
    found: dict[str, list[str]] = defaultdict(list)
    for kind in kinds:
        for reason in [reason for holds, reason in reasons.get(kind, []) if holds][:1]:
            found[reason].append(kind)
    return [f"no {', '.join(names)}: {reason}" for reason, names in found.items()]


def _source(trajectories: Source | Iterable[Record], file: Path) -> Source:
    """``trajectories`` if they are files. Records are written to the new ``file``."""
    if isinstance(trajectories, str | Path):
        return trajectories
    rows = list(trajectories)
    paths = [row for row in rows if isinstance(row, str | Path)]
    if paths and len(paths) == len(rows):
        return paths
    _write(rows, file, COLUMNS, REQUIRED)
    return file


def _path(history: str | Path | Iterable[Record], file: Path) -> Path:
    if isinstance(history, str | Path):
        return Path(history)
    _write(list(history), file, HISTORY, REQUIRED_HISTORY)
    return file


def _write(records: Sequence[Any], file: Path, columns: Mapping[str, str], required: Sequence[str]) -> None:
    """Write the columns that extraction reads. Errors name a bad record by the file's stem: trajectories[3]."""
    rows = [row if isinstance(row, Mapping) else asdict(row) for row in records]
    check_rows(((f"{file.stem}[{number}]", row) for number, row in enumerate(rows)), columns, required)
    write_jsonl(file, ({key: row[key] for key in columns if key in row} for row in rows))

"""A table of trajectories that DuckDB sorts and counts out of core. ``load`` defines its rows."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.core.io import missing
from coevolve.core.records import Attempt
from coevolve.core.success import SUCCESS_THRESHOLD
from coevolve.stages.signals.load import Source, find_files, load_episodes, load_history

if TYPE_CHECKING:
    import duckdb

SHOWN = 4  # most ids of failed, and of passed, trajectories in a visit
BATCH = 10_000
PART = 1_000_000  # rows to group at once

Pattern = tuple[str, ...]  # names of consecutive tools


@dataclass(slots=True)
class Visit:
    """An attempt. A ``current`` attempt comes from the file, not from history, and has some trajectory ids."""

    attempt: Attempt
    current: bool
    failed: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)


class Table:
    """A table from ``open_table``. Several iterators may run at the same time, since each has its own cursor."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection

    def last_iteration(self) -> int:
        """The highest iteration among the trajectories; 0 without trajectories."""
        row = self._connection.execute("SELECT coalesce(max(iteration), 0) FROM episodes").fetchone()
        return int(row[0]) if row else 0

    def visits(self) -> Iterator[Visit]:
        """The visits with episodes that count, from history and file, by task, iteration and step."""
        return (visit for visit in self._all() if visit.attempt.size)

    def attempts(self) -> list[Attempt]:
        """All attempts of history and file, including those in which the environment failed."""
        return [visit.attempt for visit in self._all()]

    def _all(self) -> Iterator[Visit]:
        """Reads the tasks in parts, in constant memory."""
        for first, last in self._parts():
            yield from self._visits(first, last)

    def _parts(self) -> list[tuple[str, str]]:
        """The first and last task of each part. A part has about PART rows."""
        rows = self._rows(
            f"""
            SELECT min(task_id), max(task_id) FROM (
                SELECT task_id, (sum(count(*)) OVER (ORDER BY task_id) - 1) // {PART} AS part
                FROM (SELECT task_id FROM loaded UNION ALL SELECT task_id FROM history) GROUP BY task_id
            ) GROUP BY part ORDER BY part
            """
        )
        return [(first, last) for first, last in rows]

    def _visits(self, first: str, last: str) -> Iterator[Visit]:
        """The visits of the tasks from ``first`` to ``last``."""
        rows = self._rows(
            f"""
            SELECT task_id, iteration, step, coalesce(list(score) FILTER (NOT failed), []),
                min(trajectory_id, {SHOWN}) FILTER (NOT failed AND score < {SUCCESS_THRESHOLD}),
                min(trajectory_id, {SHOWN}) FILTER (NOT failed AND score >= {SUCCESS_THRESHOLD}),
                NULL AS size, NULL AS successes
            FROM loaded WHERE task_id BETWEEN $first AND $last GROUP BY ALL
            UNION ALL SELECT task_id, iteration, step, [score], NULL, NULL, size, successes
            FROM history WHERE task_id BETWEEN $first AND $last
            ORDER BY task_id, iteration, step, size NULLS LAST
            """,
            {"first": first, "last": last},
        )
        previous = None
        for task_id, iteration, step, scores, failed, passed, size, successes in rows:
            if size is not None and successes is not None:  # a row of history
                visit = Visit(Attempt(task_id, iteration, step, scores[0], size, successes), False)
            else:
                visit = Visit(attempt_of(task_id, iteration, step, scores), True, failed or [], passed or [])
            key = (task_id, iteration, step)
            if key == previous:
                raise CoevolveError(
                    f"--history holds task {task_id} at iteration {iteration}, step {step} "
                    f"{'and so do the trajectories' if visit.current else 'twice'}; give only earlier attempts"
                )
            previous = key
            yield visit

    def patterns(self, order: int) -> dict[Pattern, int]:
        """The count of each pattern of ``order`` consecutive valid calls."""
        rows = self._rows(f"SELECT {_names(order)}, count(*) FROM ({self._unnested(order)}) GROUP BY ALL")
        return {row[:order]: row[order] for row in rows}

    def examples(self, patterns: Sequence[Pattern], limit: int) -> dict[Pattern, list[str]]:
        """The smallest ``limit`` ids of trajectories with each pattern. All patterns have the same order."""
        if not patterns:
            return {}
        order = len(patterns[0])
        names = _names(order)
        wanted = ", ".join(f"unnest($p{i}) AS p{i}" for i in range(order))
        query = f"""
            SELECT {names}, min(trajectory_id, {int(limit)}) FROM (
                SELECT DISTINCT {names}, trajectory_id FROM ({self._unnested(order)}) SEMI JOIN (SELECT {wanted}) USING ({names})
            ) GROUP BY {names}
        """
        parameters = {f"p{i}": [pattern[i] for pattern in patterns] for i in range(order)}
        return {row[:order]: row[order] for row in self._rows(query, parameters) if row[order]}

    def _unnested(self, order: int) -> str:
        """A query for every (trajectory_id, p0, p1, …) of ``order`` consecutive names."""
        parts = ", ".join(f"unnest(names[{i + 1}:{i - order}]) AS p{i}" for i in range(order))
        return f"SELECT trajectory_id, {parts} FROM episodes WHERE len(names) >= {order}"

    def _rows(self, query: str, parameters: dict[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, parameters)
            while batch := cursor.fetchmany(BATCH):
                yield from batch


def _names(order: int) -> str:
    return ", ".join(f"p{i}" for i in range(order))


@contextmanager
def open_table(source: Source, history: Path | None = None, memory: str = "1GB") -> Iterator[Table]:
    """The table of ``source`` and ``history``. A CoevolveError names the file and line or column of an error.

    DuckDB uses at most ``memory`` and spills the rest to a temporary folder.
    """
    import duckdb

    if history is not None and not history.is_file():
        raise missing(history)
    with tempfile.TemporaryDirectory(prefix="coevolve-signals-") as folder:
        settings = {"memory_limit": memory, "threads": min(os.cpu_count() or 1, 8), "temp_directory": folder}
        with duckdb.connect(str(Path(folder) / "table.duckdb"), config=settings) as connection:
            connection.execute("SET preserve_insertion_order = false")
            load_episodes(connection, find_files(source, connection))
            load_history(connection, history)
            yield Table(connection)

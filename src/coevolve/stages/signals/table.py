"""A table of trajectories that DuckDB sorts and counts out of core. ``load`` defines its rows."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.core.records import Attempt
from coevolve.core.success import SUCCESS_THRESHOLD
from coevolve.stages.signals.load import LOADED, load_episodes, load_history

if TYPE_CHECKING:
    import duckdb

SHOWN = 4  # most ids of failed, and of passed, trajectories in a visit
BATCH = 10_000
COMMON = 5  # most values of a reward in a summary
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

    def summary(self) -> dict[str, Any]:
        """The numbers of ``rollouts`` and their ``tasks``, and of those that count (``counted``, ``played``, ``visits``).

        ``rewards`` has their spread, the numbers of ``solved`` ones and of those with less than 1 (``partial``), and the
        smallest values with their counts (``common``). Without a rollout that counts, its numbers are None.
        """
        solved = f"NOT failed AND score >= {SUCCESS_THRESHOLD}"
        query = f"""
            SELECT {{
                rollouts: count(*), tasks: count(DISTINCT task_id), counted: count(*) FILTER (NOT failed),
                played: count(DISTINCT task_id) FILTER (NOT failed),
                visits: count(DISTINCT (task_id, iteration, step)) FILTER (NOT failed),
                rewards: {{
                    least: min(reward) FILTER (NOT failed), mean: avg(reward) FILTER (NOT failed),
                    most: max(reward) FILTER (NOT failed), solved: count(*) FILTER ({solved}),
                    partial: count(*) FILTER ({solved} AND reward < 1), common: (
                        SELECT list({{reward: reward, count: count}}) FROM (
                            SELECT reward, count(*) AS count FROM loaded WHERE NOT failed GROUP BY reward
                            ORDER BY reward LIMIT {COMMON}
                        )
                    )
                }}
            }} FROM loaded
        """
        [(summary,)] = self._rows(query)
        return dict(summary)

    def tools(self) -> list[dict[str, Any]]:
        """All tools that the agent called: name, calls, refused ones, and an answer that refuses, the most refused first.

        A call without an answer is not refused.
        """
        query = """
            SELECT {name: name, calls: count(*), refused: count(*) FILTER (said <> ''), example:
                coalesce((min({'at': trajectory_id, 'said': said}) FILTER (said <> '')).said, '')} AS tool
            FROM (
                SELECT unnest(names) AS name, trajectory_id, '' AS said FROM loaded
                UNION ALL SELECT call.name, trajectory_id, call.observation
                FROM (SELECT unnest(refused) AS call, trajectory_id FROM loaded)
            ) GROUP BY name ORDER BY count(*) FILTER (said <> '') DESC, name
        """
        return [dict(tool) for (tool,) in self._rows(query)]

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
def open_table(
    files: Path | Sequence[Path],
    history: Sequence[Attempt] = (),
    memory: str = "1GB",
    threshold: float | None = None,
    left_out: Callable[[str, str], object] | None = None,
) -> Iterator[Table]:
    """The table of Parquet ``files`` and ``history``. A CoevolveError names the file and line or column of an error.

    DuckDB uses at most ``memory`` and spills the rest to a temporary folder. ``threshold`` is the least reward of a
    success, if it is not 0.5. ``left_out`` hears of a file that cannot be read, which else is an error.
    """
    import duckdb

    with tempfile.TemporaryDirectory(prefix="coevolve-signals-") as folder:
        settings = {"memory_limit": memory, "threads": min(os.cpu_count() or 1, 8), "temp_directory": folder}
        with duckdb.connect(str(Path(folder) / "table.duckdb"), config=settings) as connection:
            connection.execute("SET preserve_insertion_order = false")
            connection.execute(LOADED)
            for path in [files] if isinstance(files, Path) else files:
                try:
                    load_episodes(connection, path, threshold)
                except CoevolveError as error:
                    if left_out is None:
                        raise
                    left_out(path.name, str(error).removeprefix(f"{path}: "))
            connection.execute("CREATE VIEW episodes AS SELECT * FROM loaded WHERE NOT failed OR unscored")
            load_history(connection, history)
            yield Table(connection)

"""Trajectories of any trainer as a table: read, checked, sorted and counted by DuckDB, out of core.

A row is an episode, in JSONL or Parquet (by the file's ending):

- ``task_id`` text, ``step`` integer, ``score`` finite number: required
- ``iteration`` integer (0 if absent), ``trajectory_id`` text (no examples if absent)
- ``calls`` list of ``{name, ok}`` (no rare patterns if absent; a call without ``ok`` counts as valid)
- ``stop_reason``: episodes that ended in ``environment_failed`` (without the agent's doing) are left out; all others count
- ``schema_version``: 1 if present

Anything else is ignored. History is a JSONL file of attempts: ``task_id``, ``iteration``, ``step``, ``score``,
and optionally ``size`` and ``successes``.
"""

import json
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.attempts import attempt_of
from coevolve.core.difficulty import Record
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import missing, read_jsonl_objects
from coevolve.core.records import Attempt, StopReason
from coevolve.core.success import SUCCESS_THRESHOLD, is_success
from coevolve.core.task import SCHEMA_VERSION
from coevolve.stages.signals.rare import Pattern

if TYPE_CHECKING:
    import duckdb

SHOWN = 4  # ids of failed and of passed trajectories that a visit keeps
BATCH = 10_000
CALLS = "STRUCT(name VARCHAR, ok BOOLEAN)[]"
COLUMNS = {
    "task_id": "VARCHAR",
    "step": "BIGINT",
    "score": "DOUBLE",
    "iteration": "BIGINT",
    "trajectory_id": "VARCHAR",
    "calls": CALLS,
    "stop_reason": "VARCHAR",
    "schema_version": "BIGINT",
}
HISTORY = {
    "task_id": "VARCHAR",
    "iteration": "BIGINT",
    "step": "BIGINT",
    "score": "DOUBLE",
    "size": "BIGINT",
    "successes": "BIGINT",
    "schema_version": "BIGINT",
}
REQUIRED = ("task_id", "step", "score")
_KINDS: dict[str, tuple[type, ...]] = {"VARCHAR": (str,), "BIGINT": (int,), "DOUBLE": (int, float)}


@dataclass(slots=True)
class Visit:
    """An attempt; ``current`` if it is of the file in question and not of history, and then with some of its ids."""

    attempt: Attempt
    current: bool
    failed: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)


class Table:
    """What ``open_table`` yields. Iterators may be used at the same time; each has a cursor of its own."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", episodes: str = "episodes") -> None:
        """``episodes``: the table of those that patterns are counted in."""
        self._connection = connection
        self._episodes = episodes

    def of(self, tasks: Collection[str]) -> "Table":
        """This table, in which patterns are those of the episodes at these ``tasks`` alone."""
        name = f"episodes_{content_hash(sorted(tasks))}"
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM episodes WHERE list_contains($tasks, task_id)",
            {"tasks": list(tasks)},
        )
        return Table(self._connection, name)

    def last_iteration(self) -> int:
        """The highest iteration among the trajectories, 0 without any."""
        row = self._connection.execute("SELECT coalesce(max(iteration), 0) FROM episodes").fetchone()
        return int(row[0]) if row else 0

    def visits(self) -> Iterator[Visit]:
        """Every attempt of history and file, ordered by task, iteration and step; constant memory."""
        rows = self._rows(
            """
            SELECT task_id, iteration, step, TRUE AS current, trajectory_id, score, 1 AS size, 0 AS successes
            FROM episodes
            UNION ALL SELECT task_id, iteration, step, FALSE, NULL, score, size, successes FROM history
            ORDER BY task_id, iteration, step, current, trajectory_id
            """
        )
        for (task_id, iteration, step), group in groupby(rows, key=itemgetter(0, 1, 2)):
            yield _visit(task_id, iteration, step, list(group))

    def patterns(self, order: int) -> dict[Pattern, int]:
        """How often each pattern of ``order`` consecutive valid calls occurs."""
        rows = self._rows(f"SELECT pattern, count(*) FROM ({self._unnested(order)}) GROUP BY pattern")
        return {tuple(pattern): count for pattern, count in rows}

    def examples(self, patterns: Sequence[Pattern], limit: int) -> dict[Pattern, list[str]]:
        """The first ``limit`` ids, in their order, of trajectories that hold each pattern (all of one order)."""
        if not patterns:
            return {}
        rows = self._rows(
            f"""
            SELECT pattern, min(trajectory_id, {int(limit)}) FROM (
                SELECT DISTINCT pattern, trajectory_id FROM ({self._unnested(len(patterns[0]))})
                WHERE trajectory_id IS NOT NULL AND list_contains($patterns, pattern)
            ) GROUP BY pattern
            """,
            {"patterns": [list(pattern) for pattern in patterns]},
        )
        return {tuple(pattern): list(ids) for pattern, ids in rows}

    def records(self, patterns: Sequence[Pattern]) -> dict[Pattern, Record]:
        """How the episodes that hold each pattern (all of one order) ended."""
        if not patterns:
            return {}
        rows = self._rows(
            f"""
            SELECT pattern, count(*) FILTER (score >= {SUCCESS_THRESHOLD}), count(*) FROM (
                SELECT DISTINCT pattern, episode, score FROM ({self._unnested(len(patterns[0]))})
                WHERE list_contains($patterns, pattern)
            ) GROUP BY pattern
            """,
            {"patterns": [list(pattern) for pattern in patterns]},
        )
        return {tuple(pattern): Record(solved, episodes) for pattern, solved, episodes in rows}

    def _unnested(self, order: int) -> str:
        """Query of every (trajectory_id, score, episode, pattern) of ``order`` consecutive names; episode is a number of its own."""
        parts = ", ".join(f"names[i + {offset}]" for offset in range(order))
        patterns = f"list_transform(range(1, len(names) - {order - 2}), lambda i: [{parts}])"
        return f"SELECT trajectory_id, score, rowid AS episode, unnest({patterns}) AS pattern FROM {self._episodes}"

    def _rows(self, query: str, parameters: dict[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, parameters)
            while batch := cursor.fetchmany(BATCH):
                yield from batch


@contextmanager
def open_table(path: Path, history: Path | None = None, memory: str = "1GB") -> Iterator[Table]:
    """The table of ``path`` (and of ``history``); a CoevolveError names file, line or column of what is wrong.

    DuckDB keeps at most ``memory`` and spills the rest to a temporary folder.
    """
    import duckdb

    for file in (path, history):
        if file is not None and not file.is_file():
            raise missing(file)
    with tempfile.TemporaryDirectory(prefix="coevolve-signals-") as folder:
        settings = {"memory_limit": memory, "threads": min(os.cpu_count() or 1, 8), "temp_directory": folder}
        with duckdb.connect(str(Path(folder) / "table.duckdb"), config=settings) as connection:
            connection.execute("SET preserve_insertion_order = false")
            _load_episodes(connection, path)
            _load_history(connection, history)
            yield Table(connection)


def _visit(task_id: str, iteration: int, step: int, rows: list[tuple[Any, ...]]) -> Visit:
    """One group of rows as a visit."""
    current = rows[0][3]
    if (not current and len(rows) > 1) or rows[-1][3] != current:
        raise CoevolveError(
            f"--history holds task {task_id} at iteration {iteration}, step {step} "
            f"{'and so do the trajectories' if rows[-1][3] else 'twice'}; give only attempts made before"
        )
    if not current:
        return Visit(Attempt(task_id, iteration, step, rows[0][5], rows[0][6], rows[0][7]), False)
    failed = [row for row in rows if not is_success(row[5])]
    passed = [row for row in rows if is_success(row[5])] if len(failed) < len(rows) else []
    attempt = attempt_of(task_id, iteration, step, [row[5] for row in rows])
    return Visit(attempt, True, *([row[4] for row in part[:SHOWN] if row[4] is not None] for part in (failed, passed)))


def _load_episodes(connection: "duckdb.DuckDBPyConnection", path: Path) -> None:
    if path.suffix == ".parquet":
        source, columns = "read_parquet($path)", set(_parquet_columns(connection, path))
    else:
        source, columns = _json_source(COLUMNS), set(COLUMNS)
    selected = [f'"{name}"' if name in columns else f"NULL::{kind} AS {name}" for name, kind in COLUMNS.items()]
    query = f"""
        CREATE TABLE episodes AS SELECT
            task_id::VARCHAR AS task_id, coalesce(iteration, 0)::BIGINT AS iteration, step::BIGINT AS step,
            score::DOUBLE AS score, trajectory_id::VARCHAR AS trajectory_id,
            list_transform(list_filter(coalesce(calls, []), lambda c: coalesce(c.ok, TRUE)), lambda c: c.name) AS names,
            schema_version::BIGINT AS schema_version
        FROM (SELECT {", ".join(selected)} FROM {source})
        WHERE stop_reason IS NULL OR stop_reason <> '{StopReason.ENVIRONMENT_FAILED}'
    """
    _create(connection, query, path, COLUMNS, REQUIRED)
    _check(connection, "episodes", path, COLUMNS, REQUIRED)


def _load_history(connection: "duckdb.DuckDBPyConnection", path: Path | None) -> None:
    if path is None or path.stat().st_size == 0:
        types = ", ".join(f"{name} {kind}" for name, kind in HISTORY.items())
        connection.execute(f"CREATE TABLE history ({types})")
        return
    required = (*REQUIRED, "iteration")
    query = f"""
        CREATE TABLE history AS
        SELECT * REPLACE (coalesce(size, 1) AS size, coalesce(successes, 0) AS successes)
        FROM {_json_source(HISTORY)}
    """
    _create(connection, query, path, HISTORY, required)
    _check(connection, "history", path, HISTORY, required)


def _json_source(columns: dict[str, str]) -> str:
    typed = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
    return f"read_json($path, format='newline_delimited', columns={{{typed}}}, maximum_object_size=33554432)"


def _parquet_columns(connection: "duckdb.DuckDBPyConnection", path: Path) -> list[str]:
    """Names of the columns; what is missing or has a wrong shape is a CoevolveError."""
    import duckdb

    try:
        rows = connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", {"path": str(path)}).fetchall()
    except duckdb.Error as error:
        raise _unreadable(path, error) from None
    types = {row[0]: row[1] for row in rows}
    absent = [name for name in REQUIRED if name not in types]
    if absent:
        raise CoevolveError(
            f"{path}: missing column {absent[0]}; expected at least {', '.join(REQUIRED)}, found {', '.join(types)}"
        )
    if "calls" in types and not (types["calls"].endswith("[]") and {"name", "ok"} <= set(_fields(types["calls"]))):
        raise CoevolveError(f"{path}: column calls is {types['calls'][:80]}; expected a list of {{name, ok}} structs")
    return list(types)


def _fields(kind: str) -> list[str]:
    """Words of a type such as STRUCT("name" VARCHAR, ok BOOLEAN)[] that may be its fields' names."""
    return [word.strip('"(,') for word in kind.replace("STRUCT(", " ").split()]


def _create(
    connection: "duckdb.DuckDBPyConnection", query: str, path: Path, columns: dict[str, str], required: Sequence[str]
) -> None:
    import duckdb

    try:
        connection.execute(query, {"path": str(path)})
    except duckdb.Error as error:
        if path.suffix != ".parquet":
            find_bad_line(path, columns, required)
        raise _unreadable(path, error) from None


def _check(
    connection: "duckdb.DuckDBPyConnection", table: str, path: Path, columns: dict[str, str], required: Sequence[str]
) -> None:
    """Refuse rows without a required value, with an infinite score, or of an unknown schema version."""
    absent = " OR ".join(f"{name} IS NULL" for name in required)
    bad = f"SELECT schema_version FROM {table} WHERE {absent} OR NOT isfinite(score)"
    unknown = f"SELECT schema_version FROM {table} WHERE schema_version <> {SCHEMA_VERSION}"
    row = connection.execute(f"({unknown} LIMIT 1) UNION ALL ({bad} LIMIT 1)").fetchone()
    if row is None:
        return
    if path.suffix != ".parquet":
        find_bad_line(path, columns, required)
    if row[0] not in (None, SCHEMA_VERSION):
        raise CoevolveError(
            f"{path}: schema_version {row[0]} is unknown, expected {SCHEMA_VERSION}; make the file again"
        )
    raise CoevolveError(f"{path}: a row lacks one of {', '.join(required)}, or its score is not finite; mend the row")


def find_bad_line(path: Path, columns: dict[str, str], required: Sequence[str]) -> None:
    """Raise the CoevolveError that names the first wrong line and key of a JSONL file; return if all are right."""
    for number, value in read_jsonl_objects(path):
        where = f"{path}:{number}"
        version = value.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise CoevolveError(f"{where}: schema_version {version!r} is unknown, expected {SCHEMA_VERSION}")
        for name, kind in columns.items():
            item = value.get(name)
            if item is None:
                if name in required:
                    raise CoevolveError(f"{where}: missing key {name}; expected at least {', '.join(required)}")
            elif not _fits(item, kind):
                shape = "a list of {name, ok}" if kind == CALLS else kind.lower()
                raise CoevolveError(f"{where}: {name}: expected {shape}, found {json.dumps(item)[:60]}; mend the line")


def _fits(item: Any, kind: str) -> bool:
    if kind == CALLS:
        return isinstance(item, list) and all(
            isinstance(call, dict)
            and isinstance(call.get("name"), str)
            and isinstance(call.get("ok", True), bool | None)
            for call in item
        )
    if isinstance(item, bool) or not isinstance(item, _KINDS[kind]):
        return False
    return not isinstance(item, float) or math.isfinite(item)


def _unreadable(path: Path, error: Exception) -> CoevolveError:
    return CoevolveError(
        f"{path}: not a whole {'Parquet' if path.suffix == '.parquet' else 'JSONL'} file "
        f"({(str(error).splitlines() or [type(error).__name__])[0][:200]}); make it again"
    )

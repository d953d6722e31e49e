"""A table of trajectories: DuckDB reads Parquet files, checks every row, and sorts and counts out of core.

``RecordedEpisode`` defines the columns. Other columns are ignored. Episodes that end with ``environment_failed`` (a failure that
the agent did not cause) count only as visits.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.guard import full_disk
from coevolve.core.io import missing
from coevolve.core.records import Attempt
from coevolve.core.success import SUCCESS_THRESHOLD
from coevolve.core.task import SCHEMA_VERSION
from coevolve.core.trajectories import FAILURE, StopReason

if TYPE_CHECKING:
    import duckdb

SHOWN = 4  # most ids of failed, and of passed, trajectories in a visit
BATCH = 10_000
COMMON = 5  # most values of a reward in a summary
PART = 1_000_000  # rows to group at once

Pattern = tuple[str, ...]  # names of consecutive tools

Whole = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class RecordedCall(BaseModel):
    name: Annotated[str, Field(strict=True)]
    ok: Annotated[bool | None, Field(strict=True)] = None


class RecordedEpisode(BaseModel, title="Trajectory"):
    """An episode, as `coevolve signals` reads it."""

    task_id: str
    step: Whole
    score: Annotated[float, Field(strict=True, allow_inf_nan=False)]
    iteration: Whole | None = None
    trajectory_id: str | None = None
    calls: list[RecordedCall] | None = None
    stop_reason: str | None = None
    schema_version: int | None = None


REQUIRED = tuple(name for name, field in RecordedEpisode.model_fields.items() if field.is_required())
UNSCORED = "no reward is recorded"  # the failure of an episode whose calls count, but not as an attempt at its task
CALL = "STRUCT(name VARCHAR, ok BOOLEAN)[]"
LOADED = """
    CREATE TABLE loaded (
        task_id VARCHAR, iteration BIGINT, step BIGINT, failed BOOLEAN, unscored BOOLEAN, reward DOUBLE, score DOUBLE,
        trajectory_id VARCHAR, names VARCHAR[], refused STRUCT(name VARCHAR, observation VARCHAR)[], schema_version BIGINT
    )
"""
HISTORY = "task_id VARCHAR, iteration BIGINT, step BIGINT, score DOUBLE, size BIGINT, successes BIGINT"
NO_ANSWER = "(the row holds no answer)"  # to a refused call
ANSWER = 200  # characters of an answer that refuses a call


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


def load_episodes(connection: "duckdb.DuckDBPyConnection", path: Path, threshold: float | None = None) -> None:
    """Add a file to the table ``loaded``, with the names of valid calls, and the others with their answers.

    ``reward`` is the file's score. With a ``threshold``, ``score`` is 1 for a reward of at least that, else 0. A missing
    column, a wrong type or value, and a damaged file are a CoevolveError.
    """
    import duckdb

    source = {"file": str(path)}
    if not path.is_file():
        raise missing(path)
    try:
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet($file)", source).fetchall()
        types = {row[0]: row[1] for row in described}
        connection.execute(_insertion(path, types, threshold), source)
    except duckdb.Error as error:
        reason = first_line(error)
        if ROW in reason:
            raise CoevolveError(f"{path}: {reason.partition(ROW)[2]}; fix the row") from None
        raise CoevolveError(full_disk(error) or f"{path}: not a whole Parquet file ({reason}); make it again") from None


ROW = "a row is wrong: "


def _insertion(path: Path, types: dict[str, str], threshold: float | None) -> str:
    """The query that adds a file with columns of these ``types``."""
    if absent := [name for name in REQUIRED if name not in types]:
        raise CoevolveError(
            f"{path}: missing column {absent[0]}; expected at least {', '.join(REQUIRED)}, found {', '.join(types)}"
        )
    # the identifiers in a type such as STRUCT("name" VARCHAR, ok BOOLEAN)[], including the names of its fields
    words = {word.strip('"(,') for word in types.get("calls", CALL).replace("STRUCT(", " ").split()}
    if "calls" in types and not (types["calls"].endswith("[]") and {"name", "ok"} <= words):
        raise CoevolveError(f"{path}: column calls is {types['calls'][:80]}; expected a list of {{name, ok}} structs")
    kinds = {"calls": CALL, "iteration": "BIGINT", "trajectory_id": "VARCHAR", "stop_reason": "VARCHAR"}
    kinds |= {"schema_version": "BIGINT", FAILURE: "VARCHAR"}
    given = [*REQUIRED, *(name if name in types else f"NULL::{kind} AS {name}" for name, kind in kinds.items())]
    answer = f"left(c.observation, {ANSWER})" if "observation" in words else f"'{NO_ANSWER}'"
    return f"""
        INSERT INTO loaded SELECT
            task_id::VARCHAR, coalesce({_whole("iteration")}, 0), {_whole("step")},
            coalesce(stop_reason = '{StopReason.ENVIRONMENT_FAILED}', FALSE) AS ended,
            ended AND coalesce({FAILURE} = '{UNSCORED}', FALSE),
            CASE WHEN ended THEN 0.0 ELSE score::DOUBLE END AS given,
            {"given" if threshold is None else f"(given >= {threshold})::DOUBLE"}, trajectory_id::VARCHAR,
            list_transform(list_filter(coalesce(calls, []), lambda c: coalesce(c.ok, TRUE)), lambda c: c.name),
            list_transform(list_filter(coalesce(calls, []), lambda c: NOT coalesce(c.ok, TRUE)),
                lambda c: {{name: c.name, observation: {answer}}}),
            CASE WHEN schema_version::BIGINT <> {SCHEMA_VERSION}
                THEN error('{ROW}schema_version ' || schema_version::VARCHAR || ' is unknown, expected {SCHEMA_VERSION}')
                WHEN task_id IS NULL OR step IS NULL OR given IS NULL OR NOT isfinite(given)
                THEN error('{ROW}it lacks one of {", ".join(REQUIRED)}, or its score is not finite')
                ELSE schema_version::BIGINT END
        FROM (SELECT {", ".join(given)} FROM read_parquet($file))
    """


def _whole(name: str) -> str:
    """A column as a BIGINT. DuckDB would round a fraction, which would merge visits, so a fraction is an error instead."""
    return (
        f"CASE WHEN {name}::DOUBLE <> floor({name}::DOUBLE) "
        f"THEN error('{ROW}{name}: expected bigint, found ' || {name}::VARCHAR) ELSE {name}::BIGINT END"
    )


def load_history(connection: "duckdb.DuckDBPyConnection", attempts: Sequence[Attempt]) -> None:
    """Make the table ``history`` of ``attempts``."""
    import pyarrow as pa

    connection.execute(f"CREATE TABLE history ({HISTORY})")
    if attempts:
        connection.register("earlier", pa.Table.from_pylist([asdict(attempt) for attempt in attempts]))
        connection.execute("INSERT INTO history SELECT task_id, iteration, step, score, size, successes FROM earlier")

"""Load trajectories from Parquet files into DuckDB, and check every row. ``RecordedEpisode`` defines the columns.

Other columns are ignored. Episodes that end with ``environment_failed`` (a failure that the agent did not cause) count
only as visits.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.guard import full_disk
from coevolve.core.io import missing
from coevolve.core.records import Attempt
from coevolve.core.task import SCHEMA_VERSION
from coevolve.core.trajectories import FAILURE, StopReason

if TYPE_CHECKING:
    import duckdb


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
SHOWN = 200  # characters of an answer that refuses a call


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
    answer = f"left(c.observation, {SHOWN})" if "observation" in words else f"'{NO_ANSWER}'"
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

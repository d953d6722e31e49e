"""Load trajectories of any trainer into DuckDB, from local files or an object store, and check every row.

A row is an episode, in JSONL or Parquet (by the files' ending):

- ``task_id`` text, ``step`` integer, ``score`` finite number: required
- ``iteration`` integer (0 if absent), ``trajectory_id`` text (no examples if absent)
- ``calls`` list of ``{name, ok}`` (no rare patterns if absent; a call without ``ok`` counts as valid)
- ``stop_reason``: episodes with ``environment_failed`` (a failure that the agent did not cause) count only as visits
- ``schema_version``: 1 if present

Other columns are ignored. History is a JSONL file of attempts: ``task_id``, ``iteration``, ``step``, ``score``, and
optionally ``size`` and ``successes``.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.guard import full_disk
from coevolve.core.io import missing, read_jsonl_objects
from coevolve.core.task import SCHEMA_VERSION
from coevolve.core.trajectories import StopReason

if TYPE_CHECKING:
    import duckdb

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
WHOLE = ("step", "iteration")  # refused with a fraction, as rounding would merge visits
REQUIRED = ("task_id", "step", "score")
REQUIRED_HISTORY = (*REQUIRED, "iteration")
PARQUET = "read_parquet($files, union_by_name = true)"
FRACTION = re.compile(rf"({'|'.join(WHOLE)}): expected bigint, found \S+")
_KINDS: dict[str, tuple[type, ...]] = {"VARCHAR": (str,), "BIGINT": (int,), "DOUBLE": (int, float)}


# A path, a glob, an fsspec address in an object store, or several of them
Source = str | Path | Sequence[str | Path]


class Files(tuple[str, ...]):
    """Paths and addresses of existing files, all Parquet or all JSONL."""

    def __str__(self) -> str:
        return self[0] if len(self) == 1 else f"{self[0]} and {len(self) - 1} more"

    @property
    def parquet(self) -> bool:
        return self[0].endswith(".parquet")


def find_files(source: Source, connection: "duckdb.DuckDBPyConnection") -> Files:
    """The files of ``source``, in order and each once. Registers object stores with ``connection``."""
    paths: dict[str | Path, str] = {}
    for entry in [source] if isinstance(source, str | Path) else source:
        text = str(entry)
        matches = _stored(text, connection) if "://" in text else _here(text)
        if not matches:
            raise _nothing(text)
        for match in matches:
            paths.setdefault(match if "://" in match else Path(match).resolve(), match)
    files = Files(paths.values())
    if other := next((file for file in files if file.endswith(".parquet") != files.parquet), None):
        raise CoevolveError(
            f"{other}: the other files are {'' if files.parquet else 'not '}Parquet; name files of one format"
        )
    return files


def _nothing(text: str) -> CoevolveError:
    if "://" in text:
        return CoevolveError(f"{text}: no such file in the object store")
    if Path(text).is_dir():
        return CoevolveError(f"{text}: is a folder; name its files, or a glob such as '{Path(text) / '*.parquet'}'")
    return missing(Path(text))


def _here(text: str) -> list[str]:
    if Path(text).is_file():
        return [text]
    return sorted(name for name in glob(text, recursive=True) if Path(name).is_file())


def local_files(source: Source) -> list[str]:
    """The files of ``source`` that are on this machine, in order."""
    entries = [source] if isinstance(source, str | Path) else source
    return [name for entry in entries if "://" not in str(entry) for name in _here(str(entry))]


def _stored(text: str, connection: "duckdb.DuckDBPyConnection") -> list[str]:
    from fsspec.core import url_to_fs

    try:
        store, pattern = url_to_fs(text)
        names = store.glob(pattern)
    except Exception as error:  # each store raises its own errors
        raise CoevolveError(f"{text}: {first_line(error)}") from None
    protocol = store.protocol if isinstance(store.protocol, str) else store.protocol[0]
    if not connection.filesystem_is_registered(protocol):
        connection.register_filesystem(store)
    return sorted(store.unstrip_protocol(name) for name in names)


def load_episodes(connection: "duckdb.DuckDBPyConnection", files: Files) -> None:
    """Make the table ``loaded``, with the names of valid calls, and its view ``episodes`` without episodes that the
    environment ``failed``.
    """
    if files.parquet:
        source, columns = PARQUET, set(_parquet_columns(connection, files))
    else:
        source, columns = _json_source(COLUMNS), set(COLUMNS)
    selected = [f'"{name}"' if name in columns else f"NULL::{kind} AS {name}" for name, kind in COLUMNS.items()]
    query = f"""
        SELECT
            task_id::VARCHAR AS task_id, coalesce({_whole("iteration")}, 0) AS iteration, {_whole("step")} AS step,
            coalesce(stop_reason = '{StopReason.ENVIRONMENT_FAILED}', FALSE) AS failed,
            CASE WHEN failed THEN 0.0 ELSE score::DOUBLE END AS score, trajectory_id::VARCHAR AS trajectory_id,
            list_transform(list_filter(coalesce(calls, []), lambda c: coalesce(c.ok, TRUE)), lambda c: c.name) AS names,
            schema_version::BIGINT AS schema_version
        FROM (SELECT {", ".join(selected)} FROM {source})
    """
    _create(connection, "loaded", query, files, COLUMNS, REQUIRED)
    connection.execute("CREATE VIEW episodes AS SELECT * FROM loaded WHERE NOT failed")


def load_history(connection: "duckdb.DuckDBPyConnection", path: Path | None) -> None:
    """Make the table ``history``; empty without a file."""
    query = f"""
        SELECT * REPLACE (
            {_whole("iteration")} AS iteration, {_whole("step")} AS step,
            coalesce(size, 1) AS size, coalesce(successes, 0) AS successes
        )
        FROM {_json_source(HISTORY)}
    """
    _create(connection, "history", query, Files([str(path or os.devnull)]), HISTORY, REQUIRED_HISTORY)


def _whole(name: str) -> str:
    """A column as a BIGINT. DuckDB would round a fraction, so a fraction is an error instead."""
    return (
        f"CASE WHEN {name}::DOUBLE <> floor({name}::DOUBLE) "
        f"THEN error('{name}: expected bigint, found ' || {name}::VARCHAR) ELSE {name}::BIGINT END"
    )


def _json_source(columns: dict[str, str]) -> str:
    typed = ", ".join(f"{name}: '{'JSON' if name in WHOLE else kind}'" for name, kind in columns.items())
    return f"read_json($files, format='newline_delimited', columns={{{typed}}}, maximum_object_size=33554432)"


def _parquet_columns(connection: "duckdb.DuckDBPyConnection", files: Files) -> list[str]:
    """The names of the columns. A missing column or a wrong type is a CoevolveError."""
    import duckdb

    try:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {PARQUET}", {"files": list(files)}).fetchall()
    except duckdb.Error as error:
        raise _unreadable(files, error) from None
    types = {row[0]: row[1] for row in rows}
    absent = [name for name in REQUIRED if name not in types]
    if absent:
        raise CoevolveError(
            f"{files}: missing column {absent[0]}; expected at least {', '.join(REQUIRED)}, found {', '.join(types)}"
        )
    # the identifiers in a type such as STRUCT("name" VARCHAR, ok BOOLEAN)[], including the names of its fields
    words = {word.strip('"(,') for word in types.get("calls", "").replace("STRUCT(", " ").split()}
    if "calls" in types and not (types["calls"].endswith("[]") and {"name", "ok"} <= words):
        raise CoevolveError(f"{files}: column calls is {types['calls'][:80]}; expected a list of {{name, ok}} structs")
    return list(types)


def _create(
    connection: "duckdb.DuckDBPyConnection",
    table: str,
    query: str,
    files: Files,
    columns: dict[str, str],
    required: Sequence[str],
) -> None:
    """Make ``table``. Refuse rows without a required value, with an infinite score, or with an unknown schema version."""
    import duckdb

    try:
        connection.execute(f"CREATE TABLE {table} AS {query}", {"files": list(files)})
    except duckdb.Error as error:
        _find_bad_line(files, columns, required)
        if fraction := FRACTION.search(str(error)):
            raise CoevolveError(f"{files}: {fraction[0]}; fix the row") from None
        raise _unreadable(files, error) from None
    absent = " OR ".join(f"{name} IS NULL" for name in required)
    bad = f"SELECT schema_version FROM {table} WHERE {absent} OR NOT isfinite(score)"
    unknown = f"SELECT schema_version FROM {table} WHERE schema_version <> {SCHEMA_VERSION}"
    row = connection.execute(f"({unknown} LIMIT 1) UNION ALL ({bad} LIMIT 1)").fetchone()
    if row is None:
        return
    _find_bad_line(files, columns, required)
    if row[0] not in (None, SCHEMA_VERSION):
        raise CoevolveError(
            f"{files}: schema_version {row[0]} is unknown, expected {SCHEMA_VERSION}; make the file again"
        )
    raise CoevolveError(f"{files}: a row lacks one of {', '.join(required)}, or its score is not finite; fix the row")


def _find_bad_line(files: Files, columns: dict[str, str], required: Sequence[str]) -> None:
    """Raise a CoevolveError for the first wrong line and key of a local JSONL file; return if all lines are valid."""
    for path in (Path(file) for file in files if "://" not in file and not files.parquet):
        check_rows(((f"{path}:{number}", value) for number, value in read_jsonl_objects(path)), columns, required)


def check_rows(
    rows: Iterable[tuple[str, Mapping[str, Any]]], columns: Mapping[str, str], required: Sequence[str]
) -> None:
    """Raise a CoevolveError for the first wrong row and key. Each row comes with its name for the error."""
    for where, value in rows:
        version = value.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise CoevolveError(f"{where}: schema_version {version!r} is unknown, expected {SCHEMA_VERSION}")
        for name, kind in columns.items():
            item = value.get(name)
            if item is None:
                if name in required:
                    way = "; read chats with `coevolve import messages` first" if "messages" in value else ""
                    raise CoevolveError(f"{where}: missing key {name}; expected at least {', '.join(required)}{way}")
            elif not _fits(item, kind):
                shape = "a list of {name, ok}" if kind == CALLS else kind.lower()
                raise CoevolveError(f"{where}: {name}: expected {shape}, found {json.dumps(item)[:60]}; fix the line")


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


def _unreadable(files: Files, error: Exception) -> CoevolveError:
    return CoevolveError(
        full_disk(error)
        or f"{files}: not a whole {'Parquet' if files.parquet else 'JSONL'} file ({first_line(error)}); make it again"
    )

"""Read and write records as JSON and JSONL.

Writing is atomic: a temporary file, then a rename. Errors in reading name the file and the line.
"""

import json
import math
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from coevolve.core.errors import CoevolveError
from coevolve.core.task import SCHEMA_VERSION, Task
from coevolve.core.untrusted import DEPTH, decode, writable

Record = TypeVar("Record")
OUTPUTS = ("data", "evaluations", "failures", "generators", "policies", "report")  # folders that the stages write


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the block names ``path``. The error of a full disk names no file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        if error.filename2 is not None:
            error.filename2 = None
        raise


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``. It is renamed to ``path`` if the block succeeds, and removed if not.

    An OSError names ``path``.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):  # the first error matters more
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(writable(text), encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def strict(text: str) -> Any:
    """Parse untrusted JSON. Text that some readers would parse differently is a ValueError."""
    value = decode(text, parse_constant=_no_number, object_pairs_hook=_unique)
    if reason := flaw(value):
        raise ValueError(reason)
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return members


def flaw(value: Any) -> str:
    """The reason why files or tables cannot hold a decoded value; empty if they can."""
    left = [(value, 1)]
    while left:
        item, depth = left.pop()
        if isinstance(item, str):
            if "\0" in item:
                return "a text holds a NUL"
            if writable(item) != item:
                return "a text holds half of a surrogate pair"
        elif isinstance(item, float):
            if not math.isfinite(item):
                return "a number is out of range"
        elif isinstance(item, int):
            if not -(2**63) <= item < 2**63:
                return "a number has more than 64 bits"
        elif isinstance(item, dict | list):
            if depth > DEPTH:
                return f"nested more than {DEPTH} deep"
            inner = [*item, *item.values()] if isinstance(item, dict) else item
            left.extend((each, depth + 1) for each in inner)
    return ""


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise missing(path) from None
    except UnicodeDecodeError as error:
        raise CoevolveError(f"{path}: expected UTF-8 text ({error})") from None


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = decode(read_text(path))
    except ValueError as error:
        raise CoevolveError(f"{path}: expected JSON ({error}); {remedy(path)}") from None
    if not isinstance(value, dict):
        raise CoevolveError(f"{path}: expected a JSON object, found {type(value).__name__}; {remedy(path)}")
    return value


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Write one record (a dataclass) or JSON object per line, keys in their order of definition.

    Without records, a file of a run gets a blank line, because DVC warns about each file of 0 bytes whenever it meets one.
    """
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for record in records:
            value = record if isinstance(record, dict) else asdict(record)
            file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")
        if of_a_run(path) and not file.tell():
            file.write("\n")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def parse(kind: type[Record], value: Any, where: str) -> Record:
    """``value`` as a record. An invalid value is a CoevolveError that names ``where`` and the key."""
    if isinstance(value, dict):
        version = value.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise CoevolveError(
                f"{where}: schema_version {version!r} is unknown, expected {SCHEMA_VERSION}; "
                f"use the coevolve version that wrote it; {remedy(Path(where.partition(':')[0]))}"
            )
    try:
        record: Record = _adapter(kind).validate_python(value)  # type: ignore[arg-type]
        return record
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "record"
        raise CoevolveError(f"{where}: {key}: {first['msg']}; expected a {kind.__name__} record") from None


def of_a_run(path: Path) -> bool:
    """Whether ``path`` is in a folder that the stages write. Users write all other files."""
    return bool(path.parts) and path.parts[0] in OUTPUTS


def remedy(path: Path) -> str:
    """How to get a good ``path``."""
    if of_a_run(path):
        return "run `dvc repro`, which makes it again"
    return "correct the file, or name another one"


def missing(path: Path) -> CoevolveError:
    return CoevolveError(f"{path}: no such file; run `dvc repro`, or name the file that you have")


def json_lines(text: str, where: Path | str) -> Iterator[tuple[int, Any]]:
    """The line numbers and JSON values of ``text``. Blank lines are skipped."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, decode(line)
            except ValueError as error:
                raise CoevolveError(f"{where}:{number}: expected a JSON object ({error})") from None


def read_jsonl_values(path: Path) -> Iterator[tuple[int, Any]]:
    """The ``json_lines`` of a file."""
    return json_lines(read_text(path), path)


def read_jsonl_objects(path: Path, keys: Collection[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """The line numbers and JSON objects of a file. Another value, or an object without ``keys``, is a CoevolveError."""
    for number, value in read_jsonl_values(path):
        if not isinstance(value, dict):
            raise CoevolveError(
                f"{path}:{number}: expected a JSON object, found {type(value).__name__}; write one object per line"
            )
        if absent := [key for key in keys if key not in value]:
            raise CoevolveError(f"{path}:{number}: missing key {absent[0]}; {remedy(path)}")
        yield number, value


def parse_jsonl(text: str, kind: type[Record], where: str) -> list[Record]:
    """Parse records from ``text``; ``where`` names its source in errors."""
    return [parse(kind, value, f"{where}:{number}") for number, value in json_lines(text, where)]


def read_jsonl(path: Path, kind: type[Record]) -> list[Record]:
    return [parse(kind, value, f"{path}:{number}") for number, value in read_jsonl_objects(path)]


def read_tasks(path: Path, environment: str | None = None, least: int = 0) -> list[Task]:
    """At least ``least`` tasks of one environment with unique ids; others are a CoevolveError with the line."""
    tasks: list[Task] = []
    lines: dict[str, int] = {}
    for number, value in read_jsonl_objects(path):
        task = parse(Task, value, f"{path}:{number}")
        if environment is not None and task.environment != environment:
            raise CoevolveError(
                f"{path}:{number}: task {task.task_id} belongs to environment {task.environment!r}, "
                f"expected {environment!r}; set `environment` in params.yaml or use another file"
            )
        if task.task_id in lines:
            raise CoevolveError(
                f"{path}:{number}: duplicate task_id {task.task_id}, first on line {lines[task.task_id]}; "
                "remove one of them"
            )
        lines[task.task_id] = number
        tasks.append(task)
    if len(tasks) < least:
        raise CoevolveError(f"{path}: expected at least {least} task, found {len(tasks)}; {remedy(path)}")
    return tasks

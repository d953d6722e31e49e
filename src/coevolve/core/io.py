"""Records to and from JSON and JSONL.

Writing is atomic (a temporary name, then a rename); reading names file and line of what is wrong.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from coevolve.core.errors import CoevolveError
from coevolve.core.task import SCHEMA_VERSION, Task

Record = TypeVar("Record")


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name if the block succeeds, and goes if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing(path) from None
    except ValueError as error:
        raise CoevolveError(f"{path}: expected JSON ({error}); run the stage that writes it again") from None


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """One record (a dataclass) or JSON object a line, keys in their order of definition."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for record in records:
            value = record if isinstance(record, dict) else asdict(record)
            file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def parse(kind: type[Record], value: Any, where: str) -> Record:
    """``value`` as a record, or a CoevolveError that says where and what is wrong."""
    if isinstance(value, dict):
        version = value.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise CoevolveError(
                f"{where}: schema_version {version!r} is unknown, expected {SCHEMA_VERSION}; "
                "use the coevolve version that wrote it, or make the file again with `dvc repro`"
            )
    try:
        record: Record = _adapter(kind).validate_python(value)  # type: ignore[arg-type]
        return record
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "record"
        raise CoevolveError(f"{where}: {key}: {first['msg']}; expected a {kind.__name__} record") from None


def missing(path: Path) -> CoevolveError:
    return CoevolveError(f"{path}: no such file; run `dvc repro`, or name the file that you have")


def read_jsonl_objects(path: Path) -> Iterator[tuple[int, Any]]:
    """Line numbers and JSON values; blank lines are skipped."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield number, json.loads(line)
                    except ValueError as error:
                        raise CoevolveError(f"{path}:{number}: expected a JSON object ({error})") from None
    except FileNotFoundError:
        raise missing(path) from None
    except UnicodeDecodeError as error:
        raise CoevolveError(f"{path}: expected UTF-8 text ({error})") from None


def parse_jsonl(text: str, kind: type[Record], where: str) -> list[Record]:
    """Records of a text that does not lie in a file here; ``where`` names it in errors."""
    return [parse(kind, json.loads(line), f"{where}:{number}") for number, line in enumerate(text.splitlines(), 1)]


def read_jsonl(path: Path, kind: type[Record]) -> list[Record]:
    return [parse(kind, value, f"{path}:{number}") for number, value in read_jsonl_objects(path)]


def read_tasks(path: Path, environment: str | None = None) -> list[Task]:
    """Tasks of one environment with unique ids; anything else is a CoevolveError naming the line."""
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
    return tasks

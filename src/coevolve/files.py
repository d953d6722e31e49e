"""Records to and from JSONL and Parquet, and where iteration t keeps what.

Writing is atomic (a temporary name, then a rename); reading names file and line of what is wrong.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from coevolve.errors import CoevolveError
from coevolve.records import SCHEMA_VERSION, CallOutcome, StopReason, Task, Trajectory

if TYPE_CHECKING:
    import pyarrow as pa

Record = TypeVar("Record")


class Paths:
    """Where everything is, relative to the repository's root."""

    panels = Path("data/panels")
    report = Path("report")

    @staticmethod
    def data(t: int) -> Path:
        return Path("data") / str(t)

    @staticmethod
    def policy(t: int) -> Path:
        return Path("policies") / str(t)

    @staticmethod
    def evaluation(t: int) -> Path:
        return Path("evaluations") / str(t)

    @staticmethod
    def panel(name: str) -> Path:
        return Paths.panels / f"{name}.jsonl"

    @staticmethod
    def tasks(t: int) -> Path:
        return Paths.data(t) / "tasks.jsonl"

    @staticmethod
    def attempts(t: int) -> Path:
        """Every attempt made before iteration t."""
        return Paths.data(t) / "attempts.jsonl"

    @staticmethod
    def trajectories(t: int) -> Path:
        return Paths.data(t) / "trajectories.parquet"

    @staticmethod
    def signals(t: int) -> Path:
        return Paths.data(t) / "signals.jsonl"

    @staticmethod
    def explorations(t: int) -> Path:
        return Paths.data(t) / "explorations.jsonl"

    @staticmethod
    def requests(t: int, stage: str) -> Path:
        """Folder with requests.jsonl and spend.json: what a stage asked of an endpoint."""
        return Paths.data(t) / "requests" / stage

    @staticmethod
    def candidates(t: int) -> Path:
        return Paths.data(t) / "candidates.jsonl"

    @staticmethod
    def verified(t: int) -> Path:
        """Folder with verdicts.jsonl and accepted.jsonl."""
        return Paths.data(t) / "verified"

    @staticmethod
    def watch(t: int) -> Path:
        """What the watchdogs say of iteration t."""
        return Paths.data(t) / "watch.json"

    @staticmethod
    def validation(t: int) -> Path:
        """Folder with report.md, quarantine.jsonl, metrics.json and Data Docs of the dataset of t."""
        return Paths.data(t) / "validation"


def scratch() -> Path:
    """Untracked folder for checkpoints and caches: under DVC's root, also for queued experiments."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve() / "scratch"


@contextmanager
def claim(folder: Path) -> Iterator[Path]:
    """``folder`` for this process alone; a folder beside it, where another process works in it.

    Queued experiments that train the same thing at once must not share checkpoints. A process that was killed leaves
    its folder behind, unclaimed, for the next to go on with.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for number in count():
        place = folder if number == 0 else folder.with_name(f"{folder.name}-{number}")
        with place.with_name(f".{place.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield place
            return


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


def trajectory_schema() -> "pa.Schema":
    """Columns of trajectories.parquet; messages and arguments are JSON text, the rest is typed."""
    import pyarrow as pa

    call = pa.struct(
        [
            ("name", pa.string()),
            ("arguments", pa.string()),
            ("ok", pa.bool_()),
            ("observation", pa.string()),
            ("turn", pa.int32()),
        ]
    )
    return pa.schema(
        [
            ("trajectory_id", pa.string()),
            ("task_id", pa.string()),
            ("iteration", pa.int32()),
            ("step", pa.int32()),
            ("group", pa.int32()),
            ("sample", pa.int32()),
            ("score", pa.float64()),
            ("stop_reason", pa.string()),
            ("calls", pa.list_(call)),
            ("messages", pa.string()),
            ("tokens", pa.list_(pa.int32())),
            ("checks", pa.string()),
            ("schema_version", pa.int32()),
        ]
    )


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Parquet by ``trajectory_schema``; the same trajectories give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for trajectory in trajectories:
        row = asdict(trajectory)
        row["stop_reason"] = str(trajectory.stop_reason)
        row["messages"] = json.dumps(row["messages"])
        row["checks"] = json.dumps(row["checks"])
        for call in row["calls"]:
            call["arguments"] = json.dumps(call["arguments"])
        rows.append(row)
    with atomic(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=trajectory_schema()), temporary, compression="zstd")


def read_trajectories(path: Path) -> list[Trajectory]:
    """The trajectories of a Parquet file that ``write_trajectories`` made."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise missing(path)
    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise CoevolveError(f"{path}: not a whole Parquet file ({text}); run the train stage again") from None
    expected = set(trajectory_schema().names)
    if rows and set(rows[0]) != expected:
        raise CoevolveError(f"{path}: expected the columns {', '.join(sorted(expected))}")
    trajectories = []
    for row in rows:
        if row["schema_version"] != SCHEMA_VERSION:
            raise CoevolveError(
                f"{path}: schema_version {row['schema_version']!r} is unknown, expected {SCHEMA_VERSION}; "
                "make the file again with `dvc repro`"
            )
        row["stop_reason"] = StopReason(row["stop_reason"])
        row["messages"] = json.loads(row["messages"])
        row["checks"] = json.loads(row["checks"])
        row["calls"] = [CallOutcome(**{**call, "arguments": json.loads(call["arguments"])}) for call in row["calls"]]
        trajectories.append(Trajectory(**row))
    return trajectories

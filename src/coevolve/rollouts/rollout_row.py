"""A rollout as the reader of a trainer's files returns it, and functions that the readers share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import FAILURE, StopReason
from coevolve.core.untrusted import decode
from coevolve.policies.call_format import Tools
from coevolve.rollouts.chats import Message, Unreadable, sound

Progress = Callable[[int], object]  # called with the number of bytes read
AT_ONCE = 500  # most rows of a Parquet file in memory
LONGEST = 1 << 26  # most bytes of a line, after decompression
PIECE = 1 << 28  # bytes of a Parquet file's rows in memory, after decompression, unless one row has more
HIGHEST = 1e12  # size of a score: sums of any number of scores are finite


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rollout at ``where`` (FILE:LINE or FILE:ROW).

    ``score`` is None if the file holds none. ``task_id`` is the id that the file gives the task. ``names`` are texts that
    may be its id, the best first, in a format without a key for the id. ``prompt`` is the text of the first prompt of a
    format that has no messages. ``prompt_messages`` is the number of messages before the agent's part, 0 if the format
    does not say. ``failure`` says why the rollout tells nothing about the agent. ``calls`` are given only if the file
    says which calls the environment accepted. ``agent`` names the agent and its model. ``tools`` are schemas in the file.
    """

    where: str
    messages: list[Message]
    score: float | None
    names: tuple[str, ...] = ()
    step: int | None = None
    iteration: int = 0
    prompt: str | None = None
    failure: str = ""
    trajectory_id: str | None = None
    calls: list[CallOutcome] | None = None
    task_id: str | None = None
    prompt_messages: int = 0
    stop_reason: StopReason = StopReason.DONE
    agent: str = ""
    tools: Tools = ()

    @property
    def request(self) -> str:
        """The user's last message of the prompt, behind its examples; without a known prompt, the user's first message."""
        messages = self.messages[: self.prompt_messages][::-1] or self.messages
        return next((str(message["content"]) for message in messages if message.get("role") == "user"), "").strip()


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that is no rollout, and the reason."""

    where: str
    reason: str


Rows = Iterator[RolloutRow | SkippedRow]


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a JSON object: ``where`` as errors name it, and the ``path`` of its file."""

    where: str
    path: Path


@dataclass(frozen=True)
class RolloutFormat:
    """A format of rollouts: its files, its readers, and the values that it lacks.

    ``claims`` returns whether a JSON object, or the columns of a Parquet file, are of this format. ``read`` gives the
    rollouts of an object that ``parse`` made of its text, ``table`` those of a Parquet file. ``lacks`` names in one line
    the values that the format does not record. ``patterns`` match its files in a folder. ``others`` match the paths of
    files that its writer makes and that hold no rollouts.
    """

    name: str
    writer: str
    patterns: tuple[str, ...]
    lacks: str
    claims: Callable[[Mapping[str, Any]], bool]
    read: Callable[[dict[str, Any], Place, "Options"], Iterator[RolloutRow]] | None = None
    table: Callable[[Path, str, "Options"], Rows] | None = None
    others: tuple[str, ...] = ()
    parse: Callable[[str], Any] = decode


@dataclass(frozen=True, slots=True)
class Options:
    """``reward`` names the reward that is the score. ``score`` is for rollouts without one. ``progress`` counts bytes.

    A reader notes peculiarities in ``remarks``, in ``columns`` the rewards that it took for the score, and ids in
    ``seen``, and a hash of its file before in ``last``. ``formats`` are those of the files.
    """

    reward: str | None = None
    score: float | None = None
    progress: Progress = lambda count: None
    remarks: dict[str, int] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    last: dict[str, str] = field(default_factory=dict)
    formats: dict[str, RolloutFormat] = field(default_factory=dict)

    def remark(self, text: str) -> None:
        """Count a peculiarity of a rollout."""
        self.remarks[text] = self.remarks.get(text, 0) + 1

    def first(self, name: str) -> bool:
        """Whether ``name`` was not seen before."""
        new = name not in self.seen
        self.seen.add(name)
        return new


def json_texts(path: Path, name: str, progress: Progress) -> Iterator[tuple[str, bytes | None]]:
    """The JSON texts of a file with their addresses: its lines, or all of it if the first line is only a bracket.

    A text of more than LONGEST bytes is None, and never in memory as a whole.
    """
    with opened(path) as file:
        lines = _lines(file, progress)
        first = next(lines, b"")
        if first is not None and first.strip() in (b"{", b"["):
            rest = file.read(LONGEST - len(first))
            progress(len(rest))
            yield name, None if file.read(1) else first + rest
            return
        for number, line in enumerate(chain([first], lines), 1):
            yield f"{name}:{number}", line


def _lines(file: BinaryIO, progress: Progress = lambda count: None) -> Iterator[bytes | None]:
    """The lines of ``file``; None for one of more than LONGEST bytes, which is never in memory as a whole."""
    while line := file.readline(LONGEST):
        progress(len(line))
        whole = len(line) < LONGEST or line.endswith(b"\n")
        rest = line
        while len(rest) == LONGEST and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST)
            progress(len(rest))
        yield line if whole else None


def opened(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed if its name says how."""
    if path.suffix not in (".zst", ".gz"):
        return path.open("rb")
    import pyarrow as pa

    file: Any = pa.input_stream(str(path), compression="detect")
    return BufferedReader(file)


def parquet_rows(
    path: Path, name: str, options: Options, needed: Sequence[str], read: Callable[[dict[str, Any], str], RolloutRow]
) -> Rows:
    """The rollouts of a Parquet file, each row read by ``read``. An unreadable row becomes a SkippedRow.

    A row has the columns that are ``needed``, a task id, a failure, and all numbers and lists of them, which may be
    rewards. A file that lacks a ``needed`` column, or that is damaged, becomes a SkippedRow.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, row_number = path.stat().st_size, 0
    try:
        with pq.ParquetFile(path) as file:
            names, types = file.schema_arrow.names, file.schema_arrow.types
            if lacking := [column for column in needed if column not in names]:
                held = ", ".join(names[:12]) or "none"
                yield SkippedRow(name, f"no column {', '.join(lacking)} (it has {held})")
                return
            inner = [kind.value_type if pa.types.is_list(kind) else kind for kind in types]
            numbers = [pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in inner]
            others = ("task_id", FAILURE, options.reward)
            kept = [key for key, holds in zip(names, numbers, strict=True) if holds or key in (*needed, *others)]
            for batch in batches(file, kept):
                for row in batch.to_pylist():
                    row_number += 1
                    where = f"{name}:{row_number}"
                    try:
                        yield read(row, where)
                    except (Unreadable, ValueError, KeyError, TypeError) as error:
                        yield SkippedRow(where, str(error)[:200])
    except MemoryError:
        raise CoevolveError(
            f"{name}:{row_number + 1}: a row does not fit into memory; leave it out of {path}"
        ) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        yield SkippedRow(f"{name}:{row_number + 1}", f"not a whole Parquet file ({first_line(error)})")
    options.progress(size)


def batches(file: Any, columns: Sequence[str]) -> Iterator[Any]:
    """The ``columns`` of a ParquetFile in record batches of at most AT_ONCE rows and about PIECE bytes, but at least one row."""
    # a value that is stored once may stand in every row: no value has more bytes than its group of rows
    groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
    at_once = min(AT_ONCE, max(PIECE // max([1, *groups]), 1))
    yield from file.iter_batches(batch_size=at_once, columns=columns)


def json_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file of at most LONGEST bytes. Another file is Unreadable."""
    try:
        with opened(path) as file:
            value = decode(file.read(LONGEST + 1)[:LONGEST].decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path.name}: not a JSON object ({first_line(error)})") from None
    if not isinstance(value, dict):
        raise Unreadable(f"{path.name}: not a JSON object (it holds a {type(value).__name__})")
    return value


def inner(value: Any, key: str) -> dict[str, Any]:
    """The object at a ``key`` of an object; empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def objects(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects in the list at a ``key`` of an object."""
    found = value.get(key) if isinstance(value, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def number(value: Any, name: str) -> float:
    """A number, which may stand in a list of one. Others, and numbers whose sums could overflow, are Unreadable."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= HIGHEST:
        raise Unreadable(f"{name}: expected a number of at most {HIGHEST:g} (found {str(value)[:40]})")
    return float(value)


def step_of(value: Any) -> int | None:
    """A training step; None if there is none."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if good else None


def rollout(where: str, messages: Any, score: Any, name: str, row: Mapping[str, Any], **others: Any) -> RolloutRow:
    """A rollout from the values of a file, where the score is called ``name``. Unsound values are Unreadable.

    A ``score`` of None is one that the file does not hold.

    ``row`` may hold its step, iteration and task id, also as a whole number, which a table may store as a float.
    """
    task_id, step, iteration = row.get("task_id"), step_of(row.get("step")), step_of(row.get("iteration")) or 0
    if isinstance(task_id, int | float) and not isinstance(task_id, bool) and task_id == task_id // 1:
        task_id = str(int(task_id))
    known: Any = {"task_id": task_id if isinstance(task_id, str) and task_id else None, "step": step, **others}
    found = None if score is None else number(score, name)
    return RolloutRow(where, sound(messages), found, iteration=iteration, **known)

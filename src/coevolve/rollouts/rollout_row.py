"""A rollout as the reader of a trainer's files returns it, and functions that the readers share.

Some trainers log rollouts as decoded text: calls between <tool_call> tags, answers between <tool_response> tags (Hermes, Qwen).
Decoding without special tokens leaves role names in the text, at the edges of a reply. ``messages_of`` removes them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.io import decode, flaw
from coevolve.core.task import CallOutcome

Message = dict[str, Any]
Progress = Callable[[int], object]  # called with the number of bytes read
AT_ONCE = 500  # rows of a Parquet file in memory
ANSWER = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
# Templates of Qwen3 and others end a prompt with an empty thought, or with the beginning of one
THOUGHTS = ("<think>\n\n</think>", "<think>")


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rollout at ``where`` (FILE:LINE or FILE:ROW).

    ``task_id`` is the id that the file gives the task. ``names`` are texts that may be its id, the best first, in a
    format without a key for the id. ``prompt`` is the text of the first prompt of a format that has no messages.
    ``prompt_messages`` is the number of messages before the agent's part, 0 if the format does not say. ``failure``
    says why the rollout tells nothing about the agent. ``calls`` are given only if the file says which calls the
    environment accepted.
    """

    where: str
    messages: list[Message]
    score: float
    names: tuple[str, ...] = ()
    step: int | None = None
    iteration: int = 0
    prompt: str | None = None
    failure: str = ""
    trajectory_id: str | None = None
    calls: list[CallOutcome] | None = None
    task_id: str | None = None
    prompt_messages: int = 0


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that is no rollout, and the reason."""

    where: str
    reason: str


Rows = Iterator[RolloutRow | SkippedRow]


class Unreadable(CoevolveError):
    """A row that a reader cannot read. Its text has no address: the reader adds it."""


@dataclass(frozen=True)
class RolloutFormat:
    """A format of rollouts: its files, its reader, and the values that it lacks.

    ``pattern`` matches its files in a folder. ``claims`` returns whether the first row, or the columns of a Parquet file, are
    of this format. ``lacks`` names in one line the values that the format does not record.
    """

    name: str
    writer: str
    pattern: str
    lacks: str
    claims: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Path, str, "Options"], Rows]


@dataclass(frozen=True, slots=True)
class Options:
    """``reward`` names the reward that is the score. ``progress`` counts bytes.

    A reader notes peculiarities in ``remarks``, and in ``columns`` the rewards that it took for the score.
    """

    reward: str | None = None
    progress: Progress = lambda count: None
    remarks: dict[str, int] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)

    def remark(self, text: str) -> None:
        """Count a peculiarity of a rollout."""
        self.remarks[text] = self.remarks.get(text, 0) + 1


def json_rows(
    path: Path, name: str, options: Options, read: Callable[[dict[str, Any], str], Iterator[RolloutRow]]
) -> Rows:
    """The rollouts of a JSONL file, each line read by ``read``. An unreadable line becomes a SkippedRow."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            options.progress(len(line))
            if not line.strip():
                continue
            where = f"{name}:{number}"
            try:
                value = decode(line.decode())
                if not isinstance(value, dict):
                    raise Unreadable(f"expected a JSON object, found {type(value).__name__}")
                yield from read(value, where)
            except ValueError as error:  # invalid UTF-8 is one, too
                yield SkippedRow(where, f"not a line of JSON ({str(error)[:100]})")
            except Unreadable as error:
                yield SkippedRow(where, str(error))


def parquet_rows(
    path: Path, name: str, options: Options, needed: Sequence[str], read: Callable[[dict[str, Any], str], RolloutRow]
) -> Rows:
    """The rollouts of a Parquet file, each row read by ``read``. An unreadable row becomes a SkippedRow.

    A CoevolveError names the ``needed`` columns that the file lacks.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, row_number = path.stat().st_size, 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if lacking := [column for column in needed if column not in names]:
                raise CoevolveError(f"{path}: no column {', '.join(lacking)}; it has {', '.join(names[:12]) or 'none'}")
            for batch in file.iter_batches(batch_size=AT_ONCE):
                for row in batch.to_pylist():
                    row_number += 1
                    where = f"{name}:{row_number}"
                    try:
                        yield read(row, where)
                    except (Unreadable, ValueError, KeyError, TypeError) as error:
                        yield SkippedRow(where, str(error)[:200])
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CoevolveError(
            f"{path}: not a whole Parquet file ({first_line(error)}); correct it, or name another one"
        ) from None
    options.progress(size)


def first_object(path: Path) -> dict[str, Any]:
    """The first line of a JSONL file that is a JSON object; empty if none of the first hundred lines is one."""
    with path.open("rb") as file:
        for _, line in zip(range(100), file, strict=False):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
    return {}


def number(value: Any, name: str) -> float:
    """A finite number; anything else is Unreadable."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise Unreadable(f"{name}: expected a number, found {str(value)[:40]}")
    return float(value)


def step_of(value: Any) -> int | None:
    """A training step; None if there is none."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if good else None


def rollout(
    where: str,
    messages: list[Message],
    score: Any,
    name: str = "score",
    step: Any = None,
    task_id: Any = None,
    **others: Any,
) -> RolloutRow:
    """A rollout from the values of a file, where the score is called ``name``. Unsound values are Unreadable.

    The task id may be a whole number in the file. Contents of messages become texts.
    """
    if not messages:
        raise Unreadable("it has no messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Unreadable("a message has no role")
        message["content"] = _text_of(message.get("content"))
    if reason := flaw(messages):
        raise Unreadable(reason)
    if isinstance(task_id, int) and not isinstance(task_id, bool):
        task_id = str(task_id)
    stated = task_id if isinstance(task_id, str) and task_id else None
    return RolloutRow(where, messages, number(score, name), step=step_of(step), task_id=stated, **others)


def _text_of(content: Any) -> str:
    """The text of a message's content, which may be a list of parts. Images are left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def messages_of(prompt: str, completion: str) -> list[Message]:
    """The messages of a rollout. Where the prompt holds a line `user`, the request is what follows the last one."""
    before, line, request = f"\n{request_of(prompt)}".rpartition("\nuser\n")
    messages: list[Message] = [{"role": "system", "content": before.strip()}] if before.strip() else []
    messages.append({"role": "user", "content": (request if line else prompt).strip()})
    for position, part in enumerate(ANSWER.split(completion)):
        if position % 2:
            messages.append({"role": "tool", "content": part.strip()})
        elif reply := part.strip().removeprefix("assistant").removesuffix("user").strip():
            messages.append({"role": "assistant", "content": reply})
    return messages


def request_of(prompt: str) -> str:
    """``prompt`` up to the end of the user's message: without what begins the agent's reply."""
    text = prompt.rstrip()
    for thought in THOUGHTS:
        text = text.removesuffix(thought).rstrip()
    return text.removesuffix("assistant").rstrip()

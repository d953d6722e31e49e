"""The strongest signals in readable text."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from heapq import nsmallest

from coevolve.core.io import decode
from coevolve.core.records import Signal
from coevolve.core.untrusted import one_line

SHOWN = 10


def strongest(signals: Iterable[Signal], count: int = SHOWN) -> list[Signal]:
    """The ``count`` strongest signals, the strongest first; equally strong ones in their order."""
    return nsmallest(count, signals, key=lambda signal: -signal.strength)


def subject(signal: Signal, words: Mapping[str, str]) -> str:
    """The task's instruction, its id if the instruction is unknown, or the pattern of tools."""
    if signal.task_id is None:
        return one_line(" > ".join(signal.pattern or []))
    return one_line(words.get(signal.task_id, f"task {signal.task_id}"))


def table_lines(signals: Iterable[Signal], words: Mapping[str, str]) -> Iterator[str]:
    for signal in signals:
        yield f"  {signal.strength:.2f}  {signal.kind:10}  {subject(signal, words)}"


def first_requests(files: Iterable[str], task_ids: Iterable[str]) -> dict[str, str]:
    """The first request of each of ``task_ids`` in local Parquet files of trajectories that hold messages."""
    import duckdb

    words: dict[str, str] = {}
    query = "SELECT task_id, any_value(messages) FROM read_parquet($file) WHERE list_contains($tasks, task_id) GROUP BY task_id"
    for file in files:
        with suppress(duckdb.Error):  # JSONL, or Parquet without messages
            rows = duckdb.execute(query, {"file": file, "tasks": list(task_ids)}).fetchall()
            words = {task: request for task, messages in rows if (request := _first(messages))} | words
    return words


def _first(messages: object) -> str:
    """The first message of the user; empty if there is none."""
    try:
        value = decode(messages) if isinstance(messages, str) else messages
    except ValueError:
        return ""
    for message in value if isinstance(value, list) else []:
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str):
            return str(message["content"])
    return ""

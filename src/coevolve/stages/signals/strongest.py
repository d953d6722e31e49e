"""The strongest signals in readable text."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from heapq import nsmallest

from coevolve.core.records import Signal
from coevolve.core.untrusted import one_line

SHOWN = 10
FIRST_REQUESTS = """
    SELECT task_id, any_value(list_filter(
        try_cast(try_cast(messages AS JSON) AS JSON[]),
        lambda message: message->>'$.role' = 'user' AND json_type(message, '$.content') = 'VARCHAR'
    )[1]->>'$.content')
    FROM read_parquet($file) WHERE list_contains($tasks, task_id) GROUP BY task_id
"""  # messages are JSON text or a list of structs


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
    for file in files:
        with suppress(duckdb.Error):  # JSONL, or Parquet without messages
            rows = duckdb.execute(FIRST_REQUESTS, {"file": file, "tasks": list(task_ids)}).fetchall()
            words = {task: request for task, request in rows if request} | words
    return words

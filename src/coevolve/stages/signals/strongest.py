"""The strongest signals in readable text."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path

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


def first_requests(files: Iterable[Path], task_ids: Iterable[str]) -> dict[str, str]:
    """The first request of each of ``task_ids`` in Parquet files of trajectories that hold messages."""
    import duckdb

    words: dict[str, str] = {}
    users = "list_filter(TRY_CAST(messages AS JSON[]), lambda message: message->>'role' = 'user')"
    query = f"""
        SELECT task_id, min({users}[1]->>'content') AS request FROM read_parquet($file)
        WHERE list_contains($tasks, task_id) GROUP BY task_id HAVING request <> ''
    """
    for file in files:
        with suppress(duckdb.Error):  # without messages
            words = dict(duckdb.execute(query, {"file": str(file), "tasks": list(task_ids)}).fetchall()) | words
    return words

"""The strongest signals in readable text."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from pathlib import Path

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
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    words: dict[str, str] = {}
    wanted = pa.array(sorted(task_ids), pa.string())
    for file in files:
        if not file.endswith(".parquet") or not Path(file).is_file() or len(words) == len(wanted):
            continue
        with pq.ParquetFile(file) as table:
            if not {"task_id", "messages"} <= set(table.schema_arrow.names):
                continue
            for batch in table.iter_batches(batch_size=2_000, columns=["task_id", "messages"]):
                for row in batch.filter(pc.is_in(batch["task_id"], wanted)).to_pylist():
                    if row["task_id"] not in words and (request := _first(row["messages"])):
                        words[row["task_id"]] = request
                if len(words) == len(wanted):
                    break
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

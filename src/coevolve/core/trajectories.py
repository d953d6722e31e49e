"""Trajectories: the records of episodes, and their Parquet files."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.io import atomic, missing, remedy
from coevolve.core.task import SCHEMA_VERSION, CallOutcome
from coevolve.core.untrusted import decode, one_line, writable

if TYPE_CHECKING:
    import pyarrow as pa


PART = 2_000  # rows in memory at once
UNREAD = "not readable: "  # begins the answer to a reply whose calls could not be read
MANY_UNREAD = 0.05  # share of unreadable replies above which a note says so: any agent errs now and then
FAILURE = "failure"  # a column of files with episodes that the environment failed


class StopReason(StrEnum):
    """Why an episode ended."""

    DONE = "done"  # the environment ended it
    MAX_TURNS = "max_turns"  # the limit on the agent's turns
    MAX_TOKENS = "max_tokens"  # the limit on tokens of the episode or of one reply, or the model's context
    TIMEOUT = "timeout"  # a call of the agent that did not end: scores 0
    REFUSED = "refused"  # the model's server refused the conversation, such as for its content: scores like a failure
    INVALID = "invalid"  # too many unreadable replies in a row
    BROKEN = "broken"  # a call of the agent broke its session: scores 0, like any failure of the agent
    ENVIRONMENT_FAILED = "environment_failed"  # a failure that the agent did not cause: not scored


# the stop reasons of episodes that end although the agent did not decide it, and what became of these episodes
INTERRUPTED = {
    StopReason.BROKEN: "broke",
    StopReason.TIMEOUT: "ran out of time",
    StopReason.REFUSED: "were refused by the model's server",
    StopReason.ENVIRONMENT_FAILED: "count nowhere",
}
End = tuple[str, str]  # an episode's stop reason, and the cause of its interruption; empty if nothing interrupted it


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of an episode. The K attempts at one task in one training step share the number ``group``.

    ``messages`` are OpenAI chat messages. ``tokens`` holds the number of generated tokens for each turn of the agent.
    ``failure`` is the reason of an episode that ended as ``ENVIRONMENT_FAILED``.
    """

    trajectory_id: str
    task_id: str
    iteration: int
    step: int
    group: int
    sample: int
    messages: list[dict[str, Any]]
    calls: list[CallOutcome]
    score: float
    stop_reason: StopReason
    tokens: list[int] = field(default_factory=list)
    checks: dict[str, bool] = field(default_factory=dict)
    failure: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def counts(self) -> bool:
        """Whether the episode says something about the agent."""
        return self.stop_reason is not StopReason.ENVIRONMENT_FAILED

    @property
    def end(self) -> End:
        """The stop reason. If nothing but the environment or a server ended the episode, its last message says why."""
        if self.stop_reason not in INTERRUPTED:
            return self.stop_reason, ""
        said = self.messages[-1]["content"].partition(": ")[2] if self.messages else ""
        return self.stop_reason, ": ".join(filter(None, [self.failure, said]))

    @property
    def unread(self) -> list[str]:
        """The replies with a call that could not be read."""
        return [
            reply["content"]
            for reply, answer in pairwise(self.messages)
            if answer["role"] == "tool" and answer["content"].startswith(UNREAD)
        ]


def replies_of(trajectories: Iterable[Trajectory]) -> int:
    """The number of replies. Imported episodes count no tokens, so their messages tell."""
    return sum(
        len(episode.tokens) or sum(message["role"] == "assistant" for message in episode.messages)
        for episode in trajectories
    )


def unread_note(count: int, replies: int, first: str) -> list[str]:
    """A note on ``count`` of ``replies`` with a call that could not be read, and the ``first`` of them; empty if they are few."""
    if count <= MANY_UNREAD * replies:
        return []
    return [
        f"{count} of {replies} replies ({count / replies:.0%}) hold a call that cannot be read; the first: {one_line(first)!r}"
    ]


def trajectory_schema() -> "pa.Schema":
    """The columns of trajectories.parquet. Messages and arguments are JSON text, the other columns are typed."""
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
    """Write Parquet by ``trajectory_schema``. The same trajectories give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_row(trajectory) for trajectory in trajectories]
    schema = trajectory_schema()
    if any(row[FAILURE] for row in rows):
        schema = schema.append(pa.field(FAILURE, pa.string()))
    with atomic(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")


def stream_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write any number of trajectories in constant memory, with the column ``failure``. Returns their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count = trajectory_schema().append(pa.field(FAILURE, pa.string())), 0
    rows = map(_row, trajectories)
    with atomic(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        while part := list(islice(rows, PART)):
            writer.write_table(pa.Table.from_pylist(part, schema=schema))
            count += len(part)
    return count


def _row(trajectory: Trajectory) -> dict[str, Any]:
    """The row of a Parquet file. Names from a model and answers from a tool may hold invalid text."""
    calls = [
        {
            "name": writable(call.name),
            "arguments": json.dumps(call.arguments),
            "ok": call.ok,
            "observation": writable(call.observation),
            "turn": call.turn,
        }
        for call in trajectory.calls
    ]
    row = {field.name: getattr(trajectory, field.name) for field in fields(trajectory)}
    return {
        **row,
        "stop_reason": str(trajectory.stop_reason),
        "messages": json.dumps(trajectory.messages),
        "checks": json.dumps(trajectory.checks),
        "calls": calls,
    }


def read_trajectories(path: Path, ids: Collection[str] | None = None) -> list[Trajectory]:
    """The trajectories of a Parquet file from ``write_trajectories``: all of them, or those with ``ids``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise missing(path)
    try:
        rows = pq.read_table(path).to_pylist() if ids is None else _chosen(path, ids)
        expected = set(trajectory_schema().names)
        if rows and set(rows[0]) - {FAILURE} != expected:
            raise CoevolveError(f"{path}: expected the columns {', '.join(sorted(expected))}")
        return [_trajectory(path, row) for row in rows]
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        # a damaged page raises whichever error its first reader meets
        raise CoevolveError(f"{path}: not a whole Parquet file ({first_line(error)}); {remedy(path)}") from None


def _chosen(path: Path, ids: Collection[str]) -> list[dict[str, Any]]:
    """The rows with ``ids``, in the order of the file. Memory holds a part of the file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted, rows = pa.array(sorted(ids), pa.string()), []
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=PART):
            rows += batch.filter(pc.is_in(batch["trajectory_id"], wanted)).to_pylist()
    return rows


def _trajectory(path: Path, row: dict[str, Any]) -> Trajectory:
    if row["schema_version"] != SCHEMA_VERSION:
        raise CoevolveError(
            f"{path}: schema_version {row['schema_version']!r} is unknown, expected {SCHEMA_VERSION}; {remedy(path)}"
        )
    row["stop_reason"] = StopReason(row["stop_reason"])
    row["messages"] = _json(row, "messages", list)
    row["checks"] = _json(row, "checks", dict)
    row["calls"] = [CallOutcome(**{**call, "arguments": _json(call, "arguments", dict)}) for call in row["calls"]]
    for message in row["messages"]:
        if not all(isinstance(message[key], str) for key in ("role", "content")):
            raise ValueError("messages: expected role and content, texts")
    calls = [(call.name, call.ok, call.observation, call.turn) for call in row["calls"]]
    if any(None in values for values in (row.values(), *calls)):
        raise ValueError("a value is null")
    return Trajectory(**row)


def _json(row: Mapping[str, Any], key: str, kind: type) -> Any:
    """The JSON of a column, which must hold a value of ``kind``."""
    value = decode(row[key])
    if not isinstance(value, kind):
        raise ValueError(f"{key}: expected JSON of a {kind.__name__}")
    return value

"""Trajectories: the records of episodes, and their Parquet files."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.calls import writable
from coevolve.core.errors import CoevolveError
from coevolve.core.io import atomic, decode, missing
from coevolve.core.task import SCHEMA_VERSION, CallOutcome

if TYPE_CHECKING:
    import pyarrow as pa


class StopReason(StrEnum):
    """Why an episode ended."""

    DONE = "done"  # the environment ended it
    MAX_TURNS = "max_turns"  # the limit on the agent's turns
    MAX_TOKENS = "max_tokens"  # the limit on tokens of the episode or of one reply, or the model's context
    TIMEOUT = "timeout"  # a call of the agent that did not end: scores 0
    INVALID = "invalid"  # too many unreadable replies in a row
    BROKEN = "broken"  # a call of the agent broke its session: scores 0, like any failure of the agent
    ENVIRONMENT_FAILED = "environment_failed"  # a failure that the agent did not cause: not scored


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of an episode. The K attempts at one task in one training step share the number ``group``.

    ``messages`` are OpenAI chat messages. ``tokens`` holds the number of generated tokens for each turn of the agent.
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
    schema_version: int = SCHEMA_VERSION

    @property
    def counts(self) -> bool:
        """Whether the episode says something about the agent."""
        return self.stop_reason is not StopReason.ENVIRONMENT_FAILED


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

    rows = []
    for trajectory in trajectories:
        row = asdict(trajectory)
        row["stop_reason"] = str(trajectory.stop_reason)
        row["messages"] = json.dumps(row["messages"])
        row["checks"] = json.dumps(row["checks"])
        for call in row["calls"]:  # names from a model and answers from a tool may hold invalid text
            call["arguments"] = json.dumps(call["arguments"])
            call["name"], call["observation"] = writable(call["name"]), writable(call["observation"])
        rows.append(row)
    with atomic(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=trajectory_schema()), temporary, compression="zstd")


def read_trajectories(path: Path) -> list[Trajectory]:
    """The trajectories of a Parquet file from ``write_trajectories``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise missing(path)
    try:
        rows = pq.read_table(path).to_pylist()
        expected = set(trajectory_schema().names)
        if rows and set(rows[0]) != expected:
            raise CoevolveError(f"{path}: expected the columns {', '.join(sorted(expected))}")
        return [_trajectory(path, row) for row in rows]
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        # a damaged page raises whichever error its first reader meets
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise CoevolveError(f"{path}: not a whole Parquet file ({text[:200]}); run the train stage again") from None


def _trajectory(path: Path, row: dict[str, Any]) -> Trajectory:
    if row["schema_version"] != SCHEMA_VERSION:
        raise CoevolveError(
            f"{path}: schema_version {row['schema_version']!r} is unknown, expected {SCHEMA_VERSION}; "
            "make the file again with `dvc repro`"
        )
    row["stop_reason"] = StopReason(row["stop_reason"])
    row["messages"] = decode(row["messages"])
    row["checks"] = decode(row["checks"])
    row["calls"] = [CallOutcome(**{**call, "arguments": decode(call["arguments"])}) for call in row["calls"]]
    return Trajectory(**row)

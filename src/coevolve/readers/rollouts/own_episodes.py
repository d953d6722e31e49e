"""Rollouts in coevolve's own forms: trajectories.parquet, and chat messages as `coevolve import messages` reads them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coevolve.core.io import decode
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import FAILURE, StopReason
from coevolve.readers.rollouts.rollout_row import (
    Options,
    RolloutFormat,
    RolloutRow,
    Rows,
    SkippedRow,
    Unreadable,
    json_rows,
    number,
    sound_messages,
    step_of,
)
from coevolve.readers.rollouts.trl_completions import batches

NEEDED = ("trajectory_id", "task_id", "iteration", "step", "messages", "calls", "score", "stop_reason")


def read(path: Path, name: str, options: Options) -> Rows:
    return _parquet(path, name, options) if path.suffix == ".parquet" else json_rows(path, name, options, _chat)


def _chat(row: dict[str, Any], where: str) -> Iterator[RolloutRow]:
    messages, task_id = row.get("messages"), row.get("task_id")
    if not isinstance(messages, list):
        raise Unreadable("messages: expected a list of messages")
    score = number(row.get("score", row.get("reward")), "score")
    names = (task_id,) if isinstance(task_id, str) else ()
    yield RolloutRow(
        where, sound_messages(messages), score, names, step_of(row.get("step")), step_of(row.get("iteration")) or 0
    )


def _parquet(path: Path, name: str, options: Options) -> Rows:
    count = 0
    for rows in batches(path, NEEDED):
        for row in rows:
            count += 1
            where = f"{name}:{count}"
            try:
                yield _trajectory(row, where)
            except (Unreadable, ValueError, KeyError, TypeError) as error:
                yield SkippedRow(where, str(error)[:200])
    options.progress(path.stat().st_size)


def _trajectory(row: Mapping[str, Any], where: str) -> RolloutRow:
    failed = row["stop_reason"] == StopReason.ENVIRONMENT_FAILED
    return RolloutRow(
        where,
        sound_messages(decode(row["messages"])),
        number(row["score"], "score"),
        (row["task_id"],),
        step_of(row["step"]),
        step_of(row["iteration"]) or 0,
        failure=(row.get(FAILURE) or "the environment failed") if failed else "",
        trajectory_id=row["trajectory_id"],
        calls=[CallOutcome(**{**call, "arguments": decode(call["arguments"])}) for call in row["calls"]],
    )


COEVOLVE = RolloutFormat(
    "coevolve",
    "coevolve",
    "trajectories.parquet",
    "chat messages need a task_id and a step; an answer that begins with 'error' marks a refused call",
    lambda row: {"trajectory_id", "task_id", "messages", "calls"} <= set(row) or "messages" in row,
    read,
)

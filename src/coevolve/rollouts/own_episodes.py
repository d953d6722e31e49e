"""Rollouts in coevolve's own forms: trajectories.parquet, and chat messages as `coevolve import messages` reads them."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.io import decode
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import FAILURE, StopReason
from coevolve.rollouts.rollout_row import (
    Options,
    RolloutFormat,
    RolloutRow,
    Rows,
    SkippedRow,
    Unreadable,
    json_rows,
    number,
    sound_messages,
    stated_id,
    step_of,
)
from coevolve.rollouts.trl_completions import batches

NEEDED = ("trajectory_id", "task_id", "iteration", "step", "messages", "calls", "stop_reason")


def read(path: Path, name: str, options: Options) -> Rows:
    if path.suffix == ".parquet":
        return _parquet(path, name, options)
    return json_rows(path, name, options, partial(_chat, options.reward))


def _chat(reward: str | None, row: dict[str, Any], where: str) -> Iterator[RolloutRow]:
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise Unreadable("messages: expected a list of messages")
    if reward is not None and reward not in row:
        raise Unreadable(f"missing key {reward}")
    score = row.get("score", row.get("reward")) if reward is None else row[reward]
    yield RolloutRow(
        where,
        sound_messages(messages),
        number(score, reward or "score"),
        step=step_of(row.get("step")),
        iteration=step_of(row.get("iteration")) or 0,
        task_id=stated_id(row.get("task_id")),
    )


def _parquet(path: Path, name: str, options: Options) -> Rows:
    reward, count = options.reward or "score", 0
    for rows in batches(path, (*NEEDED, reward)):
        for row in rows:
            count += 1
            where = f"{name}:{count}"
            try:
                yield _trajectory(row, where, reward)
            except (Unreadable, ValueError, KeyError, TypeError) as error:
                yield SkippedRow(where, str(error)[:200])
    options.progress(path.stat().st_size)


def _trajectory(row: Mapping[str, Any], where: str, reward: str) -> RolloutRow:
    failed = row["stop_reason"] == StopReason.ENVIRONMENT_FAILED
    return RolloutRow(
        where,
        sound_messages(decode(row["messages"])),
        number(row[reward], reward),
        step=step_of(row["step"]),
        iteration=step_of(row["iteration"]) or 0,
        failure=(row.get(FAILURE) or "the environment failed") if failed else "",
        trajectory_id=row["trajectory_id"],
        calls=[CallOutcome(**{**call, "arguments": decode(call["arguments"])}) for call in row["calls"]],
        task_id=stated_id(row["task_id"]),
    )


COEVOLVE = RolloutFormat(
    "coevolve",
    "coevolve",
    "trajectories.parquet",
    "chat messages need a task_id and a step; an answer that begins with 'error' marks a refused call",
    lambda row: {"trajectory_id", "task_id", "messages", "calls"} <= set(row) or "messages" in row,
    read,
)

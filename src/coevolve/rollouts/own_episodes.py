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
    Unreadable,
    json_rows,
    parquet_rows,
    rollout,
    step_of,
)

NEEDED = ("trajectory_id", "task_id", "iteration", "step", "messages", "calls", "stop_reason")


def read(path: Path, name: str, options: Options) -> Rows:
    if path.suffix == ".parquet":
        reward = options.reward or "score"
        return parquet_rows(path, name, options, (*NEEDED, reward), partial(_trajectory, reward))
    return json_rows(path, name, options, partial(_chat, options.reward))


def _chat(reward: str | None, row: dict[str, Any], where: str) -> Iterator[RolloutRow]:
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise Unreadable("messages: expected a list of messages")
    if reward is not None and reward not in row:
        raise Unreadable(f"missing key {reward}")
    score = row.get("score", row.get("reward")) if reward is None else row[reward]
    iteration = step_of(row.get("iteration")) or 0
    yield rollout(where, messages, score, reward or "score", row.get("step"), row.get("task_id"), iteration=iteration)


def _trajectory(reward: str, row: Mapping[str, Any], where: str) -> RolloutRow:
    failed = row["stop_reason"] == StopReason.ENVIRONMENT_FAILED
    return rollout(
        where,
        decode(row["messages"]),
        row[reward],
        reward,
        row["step"],
        row["task_id"],
        iteration=step_of(row["iteration"]) or 0,
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

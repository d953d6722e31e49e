"""Rollouts in coevolve's own forms: trajectories.parquet, and chat messages as `coevolve import messages` reads them."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.errors import CoevolveError
from coevolve.core.io import decode, parse, strict
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import FAILURE, StopReason
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.rollout_row import (
    UNTOLD,
    Options,
    RolloutFormat,
    RolloutRow,
    Rows,
    json_rows,
    parquet_rows,
    rollout,
    step_of,
)

NEEDED = ("trajectory_id", "task_id", "iteration", "step", "messages", "calls", "stop_reason")
UNNAMED = "rows whose trajectory_id is missing or repeats another, known by their address"


def read(path: Path, name: str, options: Options) -> Rows:
    if path.suffix == ".parquet":
        reward = options.reward or "score"
        return parquet_rows(path, name, options, (*NEEDED, reward), partial(_trajectory, reward, options))
    return json_rows(path, name, options, partial(_chat, options), strict)


def _chat(options: Options, row: dict[str, Any], where: str) -> Iterator[RolloutRow]:
    reward = options.reward
    if reward is not None and reward not in row:
        raise Unreadable(f"missing key {reward}")
    score = row.get("score", row.get("reward", options.score)) if reward is None else row[reward]
    iteration = step_of(row.get("iteration")) or 0
    messages = row.get("messages")
    yield rollout(where, messages, score, reward or "score", row.get("step"), row.get("task_id"), iteration=iteration)


def _trajectory(reward: str, options: Options, row: Mapping[str, Any], where: str) -> RolloutRow:
    failed = row["stop_reason"] == StopReason.ENVIRONMENT_FAILED
    name = row["trajectory_id"]
    if not isinstance(name, str | None):
        raise Unreadable("trajectory_id: expected text")
    if name is None or options.again(name):
        options.remark(UNNAMED)
        name = None
    return rollout(
        where,
        decode(row["messages"]),
        row[reward],
        reward,
        row["step"],
        row["task_id"],
        iteration=step_of(row["iteration"]) or 0,
        failure=str(row.get(FAILURE) or "the environment failed") if failed else "",
        trajectory_id=name,
        calls=[_outcome(call) for call in row["calls"]],
    )


def _outcome(value: Mapping[str, Any]) -> CallOutcome:
    try:
        call = parse(CallOutcome, {**value, "arguments": decode(value["arguments"])}, "calls")
    except CoevolveError as error:
        raise Unreadable(str(error)) from None
    reason = misfit(call.name, call.arguments) or ("" if step_of(call.turn) is not None else "turn: out of range")
    if reason:
        raise Unreadable(f"calls: {reason}")
    return call


COEVOLVE = RolloutFormat(
    "coevolve",
    "coevolve",
    ("trajectories.parquet",),
    f"chat messages need a task_id and a step; {UNTOLD}",
    lambda row: {"trajectory_id", "task_id", "messages", "calls"} <= set(row) or "messages" in row,
    read,
)

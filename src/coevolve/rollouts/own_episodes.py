"""Rollouts in coevolve's own forms: trajectories.parquet, chats as `coevolve import messages` reads them, and episodes without
messages: the task, step and score, and which calls the environment accepted.

A chat has `messages`, or `prompt` and `completion`, messages or texts: so wrote verifiers before version 1 (results.jsonl),
prime-rl before July 2026, and so writes AReaL.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, strict
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import FAILURE, StopReason
from coevolve.core.untrusted import decode
from coevolve.rollouts.chats import UNTOLD, Unreadable
from coevolve.rollouts.flat_text import messages_of
from coevolve.rollouts.rollout_row import (
    Options,
    Place,
    RolloutFormat,
    RolloutRow,
    Rows,
    number,
    parquet_rows,
    rollout,
)
from coevolve.stages.signals.table import NO_ANSWER, REQUIRED, RecordedEpisode

NEEDED = ("trajectory_id", "task_id", "iteration", "step", "messages", "calls", "stop_reason")
UNNAMED = "rows whose trajectory_id is missing or repeats another, known by their address"


def table(path: Path, name: str, options: Options) -> Rows:
    reward = options.reward or "score"
    return parquet_rows(path, name, options, (*NEEDED, reward), partial(_trajectory, reward, options))


def read(row: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    reward = options.reward or ("score" if "score" in row else "reward")
    failure = "" if "messages" in row else str(row.get("error") or "")[:100]
    score = 0.0 if failure else row.get(reward)
    prompt, completion = row.get("prompt"), row.get("completion")
    others: dict[str, Any] = {"failure": failure}
    if "messages" in row:
        messages = row["messages"]
    elif isinstance(prompt, str) and isinstance(completion, str):
        messages, others["prompt"] = messages_of(prompt, completion), prompt
    else:
        before = as_chat(prompt, "user")
        messages, others["prompt_messages"] = [*before, *as_chat(completion, "assistant")], len(before)
    yield rollout(place.where, messages, score, reward, {"task_id": row.get("example_id"), **row}, **others)


def as_chat(value: Any, role: str) -> list[Any]:
    """The messages of ``value``, which may be a text of one ``role``."""
    return [{"role": role, "content": value}] if isinstance(value, str) else value if isinstance(value, list) else []


def _trajectory(reward: str, options: Options, row: Mapping[str, Any], where: str) -> RolloutRow:
    failed = row["stop_reason"] == StopReason.ENVIRONMENT_FAILED
    name = row["trajectory_id"]
    if not isinstance(name, str | None):
        raise Unreadable("trajectory_id: expected text")
    if name is None or not options.first(name):
        options.remark(UNNAMED)
        name = None
    return rollout(
        where,
        decode(row["messages"]),
        row[reward],
        reward,
        row,
        failure=str(row.get(FAILURE) or "the environment failed") if failed else "",
        trajectory_id=name,
        calls=[_outcome(call) for call in row["calls"]],
    )


def _outcome(value: Mapping[str, Any]) -> CallOutcome:
    call = CallOutcome(**{**value, "arguments": decode(value["arguments"])})
    kinds = {"name": str, "arguments": dict, "ok": bool, "observation": str, "turn": int}
    if not all(isinstance(getattr(call, key), kind) for key, kind in kinds.items()) or not 0 <= call.turn < 2**31:
        raise Unreadable("calls: expected name, arguments, ok, observation and turn")
    return call


COEVOLVE = RolloutFormat(
    "coevolve",
    "coevolve and other chat messages",
    ("trajectories.parquet", "results.jsonl", "train_rollouts*.jsonl"),
    f"chat messages need a task_id and a step of their own; {UNTOLD}",
    lambda row: "messages" in row or {"prompt", "completion"} <= set(row),
    read,
    table,
    parse=strict,
)


def read_episode(value: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    reward = options.reward or "score"
    try:
        row = parse(RecordedEpisode, {**value, "score": value.get(reward)}, place.where)
    except CoevolveError as error:
        raise Unreadable(str(error).removeprefix(f"{place.where}: ")) from None
    yield recorded(row, place.where)


def recorded(row: RecordedEpisode, where: str) -> RolloutRow:
    """The rollout of an episode without messages."""
    failed = row.stop_reason == StopReason.ENVIRONMENT_FAILED
    return RolloutRow(
        where,
        [],
        number(row.score, "score"),
        step=row.step,
        iteration=row.iteration or 0,
        failure="the environment failed" if failed else "",
        trajectory_id=row.trajectory_id,
        calls=[
            CallOutcome(call.name, {}, call.ok is not False, NO_ANSWER if call.ok is False else "", 0)
            for call in row.calls or ()
        ],
        task_id=row.task_id,
    )


EPISODES = RolloutFormat(
    "episodes",
    "rows with task_id, step and score",
    ("*.jsonl",),
    "no messages and no arguments of calls, which `coevolve grow` explores from",
    lambda row: set(REQUIRED) <= set(row) and "successes" not in row,  # attempts.jsonl of a run has counts
    read_episode,
)

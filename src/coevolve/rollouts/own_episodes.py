"""Rollouts in coevolve's own forms: trajectories.parquet, and chats as `coevolve import messages` reads them.

A chat has `messages`, or `prompt` and `completion` as in the results.jsonl of verifiers before version 1.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.io import decode, strict
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import FAILURE, StopReason
from coevolve.rollouts.chats import UNTOLD, Unreadable
from coevolve.rollouts.rollout_row import Options, RolloutFormat, RolloutRow, Rows, json_rows, parquet_rows, rollout

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
    if score is None and not row.get("error"):
        raise Unreadable("no score or reward (--score sets it in `import messages`)")
    prompt: list[Any] = []
    messages, failure = row.get("messages"), ""
    if messages is None:
        prompt, failure = as_chat(row.get("prompt"), "user"), str(row.get("error") or "")[:100]
        messages = [*prompt, *as_chat(row.get("completion"), "assistant")]
    steps = {"step": row.get("step"), "iteration": row.get("iteration")}
    name = row.get("task_id", row.get("example_id"))
    before, score = len(prompt), 0.0 if failure else score
    yield rollout(
        where, messages, score, reward or "score", task_id=name, prompt_messages=before, failure=failure, **steps
    )


def as_chat(value: Any, role: str) -> list[Any]:
    """The messages of ``value``, which may be a text of one ``role``."""
    return [{"role": role, "content": value}] if isinstance(value, str) else value if isinstance(value, list) else []


def _trajectory(reward: str, options: Options, row: Mapping[str, Any], where: str) -> RolloutRow:
    failed = row["stop_reason"] == StopReason.ENVIRONMENT_FAILED
    name = row["trajectory_id"]
    if not isinstance(name, str | None):
        raise Unreadable("trajectory_id: expected text")
    if name is None or name in options.seen:
        options.remark(UNNAMED)
        name = None
    options.seen.add(name or where)
    return rollout(
        where,
        decode(row["messages"]),
        row[reward],
        reward,
        step=row["step"],
        task_id=row["task_id"],
        iteration=row["iteration"],
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
    ("trajectories.parquet", "results.jsonl"),
    f"chat messages need a task_id and a step of their own; {UNTOLD}",
    lambda row: "messages" in row or {"prompt", "completion"} <= set(row),
    read,
)

"""Other people's episodes, as chat messages, read as trajectories."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.task import CallOutcome, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.policies.agent_prompt import parse_reply, render_call

ROLES = ("system", "user", "assistant", "tool")


def episode(value: Mapping[str, Any], where: str, number: int, score: float | None) -> Trajectory:
    """An episode from a JSON object with ``messages``; ``score`` if it has none. What is no episode is a CoevolveError."""
    messages = _messages(value["messages"], where)
    calls = _calls(messages)
    said = next((place for place, one in enumerate(messages) if one["role"] == "assistant"), len(messages))
    begin = content_hash([[one["role"], one["content"]] for one in messages[:said]])
    task_id = value.get("task_id", begin)
    if not isinstance(task_id, str):
        raise CoevolveError(f"{where}: task_id: expected text")
    return Trajectory(
        trajectory_id=content_hash(["imported", number, task_id]),
        task_id=task_id,
        iteration=_whole(value, "iteration", where),
        step=_whole(value, "step", where),
        group=0,
        sample=number,
        messages=[{"role": one["role"], "content": _text(one)} for one in messages],
        calls=calls,
        score=_score(value, where, score),
        stop_reason=StopReason.DONE,
    )


def _messages(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise CoevolveError(f"{where}: messages: expected a list of messages")
    found = []
    for place, one in enumerate(value):
        if not isinstance(one, dict) or one.get("role") not in ROLES or not isinstance(one.get("content") or "", str):
            raise CoevolveError(
                f"{where}: message {place}: expected role (one of {', '.join(ROLES)}) and content, a text"
            )
        found.append({**one, "content": one.get("content") or "", "calls": _made(one, f"{where}: message {place}")})
    return found


def _made(message: Mapping[str, Any], where: str) -> list[tuple[str | None, ToolCall]]:
    """The calls of a message, each with the id that its answer names."""
    if message["role"] != "assistant":
        return []
    if not message.get("tool_calls"):
        return [(None, call) for call in parse_reply(message.get("content") or "")[0]]
    found = []
    for one in message["tool_calls"]:
        function = one.get("function", one) if isinstance(one, dict) else {}
        arguments = function.get("arguments") or {}
        try:
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            arguments = None
        if not isinstance(function.get("name"), str) or not isinstance(arguments, dict):
            raise CoevolveError(f"{where}: a tool call needs a name and arguments, an object or its JSON")
        found.append((one.get("id"), ToolCall(function["name"], arguments)))
    return found


def _text(message: Mapping[str, Any]) -> str:
    """As our own trajectories have it: calls in the text."""
    content = str(message["content"])
    if not message.get("tool_calls"):
        return content
    return "\n".join(filter(None, [content, *(render_call(call) for _, call in message["calls"])]))


def _calls(messages: Sequence[Mapping[str, Any]]) -> list[CallOutcome]:
    found: list[CallOutcome] = []
    for place, message in enumerate(messages):
        answers = []
        for after in messages[place + 1 :]:
            if after["role"] != "tool":
                break
            answers.append(after)
        turn = max(sum(one["role"] == "user" for one in messages[:place]) - 1, 0)
        for row, (name, call) in enumerate(message["calls"]):
            named = [one for one in answers if name is not None and one.get("tool_call_id") == name]
            answer = next(iter(named or answers[row : row + 1]), None)
            ok = answer is not None and not answer["content"].lower().startswith("error")
            found.append(CallOutcome(call.name, call.arguments, ok, answer["content"] if answer else "", turn))
    return found


def _score(value: Mapping[str, Any], where: str, otherwise: float | None) -> float:
    score = value.get("score", value.get("reward", otherwise))
    if not isinstance(score, int | float) or isinstance(score, bool) or not isfinite(score):
        raise CoevolveError(f"{where}: score: expected a number as `score` or `reward`; or say one of all with --score")
    return float(score)


def _whole(value: Mapping[str, Any], key: str, where: str) -> int:
    found = value.get(key, 0)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**31:
        raise CoevolveError(f"{where}: {key}: expected a whole number from 0 on")
    return found

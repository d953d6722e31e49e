"""Read episodes of other tools, which are chat messages, as trajectories. ``io.strict`` has parsed their JSON."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import strict
from coevolve.core.task import CallOutcome, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.policies.agent_prompt import parse_reply, render_call

ROLES = ("system", "user", "assistant", "tool")
MAX_CALLS = 1_000  # most calls of a message

Message = dict[str, Any]


def episode(value: Mapping[str, Any], where: str, number: int, score: float | None) -> Trajectory:
    """An episode from a JSON object with ``messages``. ``score`` is for objects without one. Other objects are a CoevolveError."""
    messages = _messages(value["messages"], where)
    task_id = value.get("task_id", opening(messages))
    if not isinstance(task_id, str):
        raise CoevolveError(f"{where}: task_id: expected text")
    return Trajectory(
        trajectory_id=content_hash(["imported", number, task_id]),
        task_id=task_id,
        iteration=_whole(value, "iteration", where),
        step=_whole(value, "step", where),
        group=0,
        sample=number,
        messages=_plain(messages),
        calls=list(_outcomes(messages)),
        score=_score(value, where, score),
        stop_reason=StopReason.DONE,
    )


def conversation(value: Any, where: str) -> tuple[list[Message], list[CallOutcome]]:
    """The messages of a rollout as our trajectories have them, and its calls with their answers.

    Calls that cannot be carried out are left out, such as calls whose arguments are not JSON: agents in training write many.
    """
    messages = _messages(value, where, exact=False)
    return _plain(messages), list(_outcomes(messages))


def opening(messages: Sequence[Message], prompt: int = 0) -> str:
    """A task id for an episode without one: a hash of its first ``prompt`` messages, or of those before the first reply."""
    first = messages[:prompt] or takewhile(lambda message: message["role"] != "assistant", messages)
    return content_hash([[message["role"], message["content"]] for message in first])


def _plain(messages: Sequence[Message]) -> list[Message]:
    return [{"role": message["role"], "content": _text(message)} for message in messages]


def _messages(value: Any, where: str, exact: bool = True) -> list[Message]:
    """The messages, each with its ``calls``: pairs of a call and the id that its answer names.

    With ``exact`` a call that cannot be read is an error; without it, it is left out.
    """
    if not isinstance(value, list) or not value:
        raise CoevolveError(f"{where}: messages: expected a list of messages")
    messages = []
    for place, message in enumerate(value):
        if (
            not isinstance(message, dict)
            or message.get("role") not in ROLES
            or not isinstance(message.get("content") or "", str)
        ):
            raise CoevolveError(
                f"{where}: message {place}: expected role (one of {', '.join(ROLES)}) and content, a text"
            )
        calls = _calls(message, f"{where}: message {place}", exact) if message["role"] == "assistant" else []
        messages.append({**message, "content": message.get("content") or "", "calls": calls})
    return messages


def _calls(message: Mapping[str, Any], where: str, exact: bool) -> list[tuple[str | None, ToolCall | None]]:
    entries = message.get("tool_calls") or []
    if not isinstance(entries, list):
        raise CoevolveError(f"{where}: tool_calls: expected a list of calls")
    calls: list[tuple[str | None, ToolCall | None]] = []
    for entry in entries:
        try:
            calls.append(_call(entry, where))
        except CoevolveError:
            if exact:
                raise
            calls.append((None, None))  # so that later calls find their answers by position
    if not entries:
        calls += ((None, call) for call in parse_reply(message.get("content") or "")[0])
    if len(calls) > MAX_CALLS:
        raise CoevolveError(f"{where}: {len(calls)} calls in a message, expected at most {MAX_CALLS}")
    return calls


def _call(entry: Any, where: str) -> tuple[str | None, ToolCall]:
    function = entry.get("function", entry) if isinstance(entry, dict) else None
    name, arguments = (
        (function.get("name"), function.get("arguments") or {}) if isinstance(function, dict) else (None, {})
    )
    try:
        arguments = strict(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        raise CoevolveError(f"{where}: a tool call: arguments: expected JSON ({error})") from None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise CoevolveError(f"{where}: a tool call needs a name and arguments, an object or its JSON")
    if reason := misfit(name, arguments):
        raise CoevolveError(f"{where}: a tool call: {reason}")
    return _id(entry.get("id")), ToolCall(name, arguments)


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message, with its calls in the text, as in coevolve's trajectories."""
    content = str(message["content"])
    if not message.get("tool_calls"):
        return content
    return "\n".join(filter(None, [content, *(render_call(call) for _, call in message["calls"] if call)]))


def _outcomes(messages: Sequence[Message]) -> Iterator[CallOutcome]:
    """Each call with its answer: the next answer that names its id, or else the answer at its position. Reads ``messages`` once."""
    turns = 0
    for place, message in enumerate(messages):
        turns += message["role"] == "user"
        if not message["calls"]:
            continue
        answers = list(_answers(messages, place + 1))
        named = defaultdict(list)
        for answer in reversed(answers):
            named[_id(answer.get("tool_call_id"))].append(answer["content"])
        for row, (call_id, call) in enumerate(message["calls"]):
            if call is None:
                continue
            content = answers[row]["content"] if row < len(answers) else None
            if call_id is not None and named[call_id]:
                content = named[call_id].pop()
            accepted = content is not None and not content[:5].lower().startswith("error")
            yield CallOutcome(call.name, call.arguments, accepted, content or "", max(turns - 1, 0))


def _answers(messages: Sequence[Message], start: int) -> Iterator[Message]:
    """The tools' messages from ``start`` until a message of another role."""
    for place in range(start, len(messages)):
        if messages[place]["role"] != "tool":
            return
        yield messages[place]


def _id(value: Any) -> str | None:
    """The id of a call in a comparable form."""
    return None if value is None else json.dumps(value, sort_keys=True)


def _score(value: Mapping[str, Any], where: str, otherwise: float | None) -> float:
    score = value.get("score", value.get("reward", otherwise))
    if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
        raise CoevolveError(
            f"{where}: score: expected a number from 0 to 1 as `score` or `reward`; or set one for all episodes with --score"
        )
    return float(score)


def _whole(value: Mapping[str, Any], key: str, where: str) -> int:
    number = value.get(key, 0)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        raise CoevolveError(f"{where}: {key}: expected a whole number of at least 0")
    return number

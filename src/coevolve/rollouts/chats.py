"""Read chat messages of other tools: one rule for roles, contents, calls and answers, for `import` and `grow`."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import flaw, strict
from coevolve.core.refused_answers import refused
from coevolve.core.task import CallOutcome, ToolCall, misfit
from coevolve.policies.call_format import MARKS, UNREADABLE, Tools, parse_reply, parse_text, render_call
from coevolve.rollouts.flat_text import ANSWER, BARE

# OpenAI's newer models and its first functions, Gemma and Llama 3 have other names
OTHERS = {"developer": "system", "model": "assistant", "function": "tool", "ipython": "tool"}
ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool", **OTHERS}
UNTOLD = "the text of answers tells refused calls"
MOST = 10_000  # characters that templates of other families read: some of their patterns take quadratic time
MAX_CALLS = 1_000  # most calls of a message
REPLY = "replies with marks of a call that cannot be read"
CALL = "calls left out, because they cannot be read"
PART = "parts of messages without text, left out"
INVENTED = "answers of tools inside a reply of the agent, which count as its words"

Message = dict[str, Any]


class Unreadable(CoevolveError):
    """A rollout that a reader cannot read. Its text has no address: the reader adds it."""


def sound(messages: Any) -> list[Message]:
    """Copies of the ``messages`` with our roles and with texts as contents. Other values are Unreadable."""
    if not isinstance(messages, list) or not messages:
        raise Unreadable("it has no messages")
    if reason := flaw(messages):
        raise Unreadable(reason)
    found = []
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in ROLES:
            raise Unreadable(f"message {place}: unknown role ({str(role)[:40]!r}, expected {', '.join(ROLES)})")
        text, parts = _content(message.get("content"))
        found.append({**message, "role": ROLES[role], "content": text, "parts": parts})
    return found


def _content(content: Any) -> tuple[str, list[Any]]:
    """The text of a message's content, and the parts that are no text, such as images. Other values become JSON."""
    if isinstance(content, str | None):
        return content or "", []
    parts = content if isinstance(content, list) else [content]
    parts = [{"text": part} if isinstance(part, str) else part for part in parts]
    if not all(isinstance(part, dict) and {"text", "type"} & set(part) for part in parts):
        return json.dumps(content, ensure_ascii=False), []
    others = [part for part in parts if not isinstance(part.get("text"), str)]
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str)), others


def chat(
    messages: Sequence[Message], prompt: int = 0, tools: Tools = ()
) -> tuple[list[Message], list[CallOutcome], list[tuple[str, str]]]:
    """``sound`` messages as our trajectories have them, the calls with their answers, and what could not be read.

    The last are REPLY, CALL, PART or INVENTED with an example: agents in training write many calls that cannot be made.
    Calls in the first ``prompt`` messages are examples, and do not count. ``tools`` are schemas: they give types to the
    values that some families write as text.
    """
    unread: list[tuple[str, str]] = []
    heard = [
        {**row, "calls": _calls(row, tools, unread if place >= prompt else [])} for place, row in enumerate(messages)
    ]
    plain = [{"role": message["role"], "content": _with_calls(message)} for message in heard]
    return plain, list(_outcomes(heard, prompt)), unread


def opening(messages: Sequence[Message], prompt: int = 0) -> str:
    """A task id for an episode without one: a hash of its first ``prompt`` messages, or of those before the first reply."""
    first = messages[:prompt] or takewhile(lambda message: message["role"] != "assistant", messages)
    return content_hash([[message["role"], message["content"]] for message in first])


@cache
def _has_trl() -> bool:
    """Whether TRL is installed, which reads the calls of other families' templates."""
    return find_spec("trl") is not None


def _calls(message: Message, tools: Tools, unread: list[tuple[str, str]]) -> list[tuple[Any, ToolCall | None]]:
    """Pairs of the id that an answer names and a call. A call that cannot be read is None, and keeps its place."""
    unread.extend((PART, str(part.get("type"))) for part in message["parts"])
    if message["role"] != "assistant":
        return []
    if ANSWER in message["content"]:
        unread.append((INVENTED, message["content"].partition(ANSWER)[2]))
    entries = message.get("tool_calls") or [call for call in [message.get("function_call")] if call]
    if not isinstance(entries, list):
        raise Unreadable("tool_calls: expected a list of calls")
    pairs: list[tuple[Any, ToolCall | None]] = []
    if not entries:
        said = message["content"].rpartition("</think>")[2]
        calls, error = parse_reply(said)
        if not calls and len(said) <= MOST and _has_trl():
            calls, error = parse_text(said, tools)
            if any({"<", "{"} & set(call.name) for call in calls):  # some forms take any text behind a mark for a name
                calls, error = [], "a call needs a name"
        if error or (not calls and (MARKS.search(said) or BARE.match(said))):
            unread.append((REPLY, f"{error or UNREADABLE}: {said}"))
        pairs = [(None, call) for call in calls]
    for entry in entries[: MAX_CALLS + 1]:
        try:
            pairs.append(_call(entry))
        except Unreadable as error:
            unread.append((CALL, str(error)))
            pairs.append((None, None))
    if len(pairs) > MAX_CALLS:
        raise Unreadable(f"more than {MAX_CALLS} calls in a message")
    return pairs


def _call(entry: Any) -> tuple[Any, ToolCall]:
    try:
        entry = strict(entry) if isinstance(entry, str) else entry  # verifiers' older files hold JSON texts
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        arguments = (function.get("arguments") or {}) if isinstance(function, dict) else {}
        arguments = strict(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        raise Unreadable(f"expected JSON ({error})") from None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Unreadable(f"expected a name and arguments, an object or its JSON ({json.dumps(entry)[:80]})")
    if reason := misfit(name, arguments):
        raise Unreadable(reason)
    return entry.get("id"), ToolCall(name, arguments)


def _with_calls(message: Message) -> str:
    """The text of a message, with its calls in the text, as in coevolve's trajectories."""
    content = str(message["content"])
    if not message.get("tool_calls") and not message.get("function_call"):
        return content
    return "\n".join(filter(None, [content, *(render_call(call) for _, call in message["calls"] if call)]))


def _outcomes(messages: Sequence[Message], prompt: int) -> Iterator[CallOutcome]:
    """Each call with its answer: the next answer that names its id, or else its tool, or else the one at its position.

    TRL writes no ids, and the answers of async tools after all others. An answer names a tool only if all of them do,
    each a tool that was called. Reads ``messages`` once. The last request of the first ``prompt`` messages begins the first turn.
    """
    turns = 0
    for place, message in enumerate(messages):
        if message["role"] == "user":
            turns = turns + 1 if place >= prompt else 1
        if not message["calls"] or place < prompt:
            continue
        after = takewhile(lambda row: messages[row]["role"] == "tool", range(place + 1, len(messages)))
        answers = [messages[row] for row in after]
        named = defaultdict(list)
        for told in reversed(answers):
            named[str(told.get("tool_call_id"))].append(told)
        tools = {call.name for _, call in message["calls"] if call}
        by_tool = defaultdict(list)
        if len(tools) > 1 and {told.get("name") for told in answers} <= tools:
            for told in reversed(answers):
                by_tool[told["name"]].append(told)
        for row, (call_id, call) in enumerate(message["calls"]):
            if call is None:
                continue
            answer: Message | None = answers[row] if row < len(answers) else None
            if call_id is not None and named[str(call_id)]:
                answer = named[str(call_id)].pop()
            elif by_tool:
                answer = by_tool[call.name].pop() if by_tool[call.name] else None
            text = answer["content"] if answer else ""
            accepted = answer is not None and not refused(text, answer)
            yield CallOutcome(call.name, call.arguments, accepted, text, max(turns - 1, 0))

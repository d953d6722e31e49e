"""Rollouts of verifiers' OpenEnv player: an observation is JSON in a user's message, and an action is JSON in the agent's text."""

import json
from typing import Any

from coevolve.core.io import decode
from coevolve.environments.openenv import SAY
from coevolve.rollouts.rollout_row import Message, Options

UNANSWERED = "rollouts of verifiers' OpenEnv player, which records no answer to the last action"


def unwrapped(messages: list[Message], options: Options) -> tuple[list[Message], str | None]:
    """The messages with native calls and answers, and the id of the task; ``messages`` themselves if no player wrote them."""
    first = _payload(messages[0]) if messages else None
    if first is None:
        return messages, None
    options.remark(UNANSWERED)
    metadata = first.get("metadata")
    name = metadata.get("task_id") if isinstance(metadata, dict) else None
    plain: list[Message] = []
    called = False
    for message in messages:
        if message.get("role") == "assistant":
            plain.append(_acted(message))
            called = "tool_calls" in plain[-1]
        elif (observation := _payload(message)) is not None:
            plain.append({"role": "tool" if called else "user", "content": _told(observation)})
        else:
            plain.append(message)
    return plain, name if isinstance(name, str) else None


def _payload(message: Message) -> dict[str, Any] | None:
    value = _object(message.get("content")) if message.get("role") == "user" else None
    observation = value.get("observation") if value and "action_schema" in value else None
    return observation if isinstance(observation, dict) else None


def _object(text: Any) -> dict[str, Any] | None:
    try:
        value = decode(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _acted(message: Message) -> Message:
    """The agent's message, with its action as a call. A sentence, or the tool ``say``, is a message without a call."""
    text = str(message.get("content") or "").strip()
    if text.startswith("```") and text.endswith("```"):
        text = "\n".join(text.splitlines()[1:-1])
    action = _object(text)
    if action is None or not isinstance(action.get("tool_name"), str):
        return message
    arguments = action.get("arguments") or {}
    if action["tool_name"] == SAY and isinstance(arguments, dict):
        return {"role": "assistant", "content": str(arguments.get("text", ""))}
    function = {"name": action["tool_name"], "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def _told(observation: dict[str, Any]) -> str:
    """The text of an observation; a refused call's begins with "error", as in other files of trainers."""
    error = observation.get("error")
    if error:
        return f"error: {error.get('message', error) if isinstance(error, dict) else error}"
    value = observation.get("result", observation.get("content"))
    return value if isinstance(value, str) else json.dumps(value)

"""A served model as a policy, by the server's function calling."""

import json
from collections.abc import Sequence
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.concurrency import in_order
from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import derive_seed
from coevolve.core.task import ToolCall
from coevolve.endpoint.client import Answer, Ask, Endpoint, Exhausted, Failed
from coevolve.endpoint.messages import RawCall
from coevolve.policies.agent_prompt import OPEN, parse_reply, render_call
from coevolve.policies.policy import Conversation, Reply


class ContextTooShort(CoevolveError):
    """The first prompt of a task, with its tools' schemas, does not fit the model."""


class EndpointPolicy:
    """See ``coevolve.policies.policy.Policy``. Sends the requests of all conversations in parallel, as many as the endpoint allows.

    A request without an answer ends its episode (as truncated). A used-up budget ends all episodes.
    """

    def __init__(self, endpoint: Endpoint, temperature: float, name: str = "endpoint") -> None:
        self.name = name
        self._endpoint = endpoint
        self._temperature = temperature
        self.exhausted = 0
        self.failures: list[str] = []
        self._said: dict[int, list[dict[str, Any]]] = {}  # OpenAI messages of each conversation
        self._heard: dict[int, int] = {}  # number of the conversation's messages in them

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._said = {one.key: [] for one in conversations}
        self._heard = dict.fromkeys(self._said, 0)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return list(in_order(self._ask, conversations, self._endpoint.config.concurrency))

    def _ask(self, one: Conversation) -> Reply:
        said = self._said[one.key]
        self._listen(one)
        room = min(one.reply_tokens, one.room)
        if room <= 0:
            return Reply("", truncated=True)
        turn = sum(message["role"] == "assistant" for message in said)
        ask = Ask(list(said), self._temperature, room, derive_seed(one.seed, turn), tools=one.tools)
        try:
            answer = self._endpoint.chat(ask)
        except Exhausted:
            self.exhausted += 1
            return Reply("", truncated=True)
        except Failed as reason:
            if turn == 0 and str(reason).startswith("context too long"):
                raise ContextTooShort(f"task {one.task.task_id}: {reason}; use a model with a longer context") from None
            self.failures.append(str(reason))
            return Reply("", truncated=True)
        calls, error = _calls(answer)
        said.append(_message(answer, calls, turn))
        return _reply(answer, calls, error)

    def _listen(self, one: Conversation) -> None:
        """Convert the new messages since the last reply to the form that servers expect."""
        said = self._said[one.key]
        waiting = [call["id"] for call in said[-1].get("tool_calls", [])] if said else []
        for message in one.messages[self._heard[one.key] :]:
            if message["role"] == "tool" and waiting:
                said.append({"role": "tool", "tool_call_id": waiting.pop(0), "content": message["content"]})
            elif message["role"] == "tool":  # about a reply without a call
                said.append({"role": "user", "content": message["content"]})
            else:
                said.append({"role": message["role"], "content": message["content"]})
        for left in waiting:
            said.append({"role": "tool", "tool_call_id": left, "content": "not carried out"})
        self._heard[one.key] = len(one.messages) + 1  # includes the next reply


def _message(answer: Answer, calls: Sequence[RawCall], turn: int) -> dict[str, Any]:
    """The answer as a message of the conversation. Calls get new numbers, so that equal episodes have equal text."""
    if not calls:
        return {"role": "assistant", "content": answer.content}
    numbered = [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments if _object(call.arguments) else "{}"},
        }
        for number, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": answer.content.partition(OPEN)[0], "tool_calls": numbered}


def _object(arguments: str) -> dict[str, Any] | None:
    """The JSON object of a call's arguments; None if it is not an object, or not valid for a call."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not misfit("", value) else None


def _calls(answer: Answer) -> tuple[list[RawCall], str]:
    """The calls of an answer, and the error in them. A server without a parser leaves calls in the text."""
    if not answer.calls and OPEN in answer.content:
        calls, error = parse_reply(answer.content)
        return [RawCall(call.name, json.dumps(call.arguments)) for call in calls], error
    wrong = next((call.name for call in answer.calls if _object(call.arguments) is None), None)
    return (
        answer.calls,
        "" if wrong is None else f"the arguments of {wrong} must be a JSON object, not too deep or long",
    )


def _reply(answer: Answer, calls: Sequence[RawCall], error: str) -> Reply:
    made = [] if error else [ToolCall(call.name, _object(call.arguments) or {}) for call in calls]
    said = answer.content.partition(OPEN)[0].strip() if made else answer.content
    return Reply(
        "\n".join(filter(None, [said, *(render_call(call) for call in made)])),
        made,
        invalid=bool(error),
        error=error,
        truncated=answer.finish_reason == "length" and not made,
        prompt_tokens=answer.prompt_tokens,
        reply_tokens=answer.completion_tokens,
    )

"""A served model as a policy, by the server's function calling."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.concurrency import in_order
from coevolve.core.seeding import derive_seed
from coevolve.core.task import ToolCall
from coevolve.endpoint.client import Answer, Ask, Endpoint, Exhausted, Failed
from coevolve.endpoint.messages import SILENT
from coevolve.policies.agent_prompt import message_of, told
from coevolve.policies.call_format import CLOSE, MARKS, OPEN, call_of, parse_text, render_call
from coevolve.policies.policy import Conversation, Reply

INVALID = re.compile(r"[^A-Za-z0-9_-]")  # in the name of a tool, for most servers


class EndpointPolicy:
    """See ``coevolve.policies.policy.Policy``. Sends the requests of all conversations in parallel, as many as the endpoint allows.

    A request that the server refuses for good ends its episode. So does a request without an answer: if it is the first, nobody
    played the episode. A used-up budget ends all episodes. ``failures`` are the reasons of requests without an answer.
    """

    def __init__(self, endpoint: Endpoint, temperature: float) -> None:
        self._endpoint = endpoint
        self._temperature = temperature
        self.exhausted = 0
        self.failures: list[str] = []
        # by conversation and turn: the reply's text, and the server's message, which later requests hold as it came
        self._said: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._said = {}

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return list(in_order(self._ask, conversations, self._endpoint.config.concurrency))

    def _ask(self, one: Conversation) -> Reply:
        room = min(one.reply_tokens, one.room)
        if room <= 0:
            return Reply("", truncated=True)
        turn = sum(message["role"] == "assistant" for message in one.messages)
        names = _names(one.tools)
        tools = [
            {**tool, "function": {**tool["function"], "name": names[str(tool["function"]["name"])]}}
            for tool in one.tools
        ]
        messages = self._sent(one, names)
        try:
            answer = self._endpoint.chat(
                Ask(messages, self._temperature, room, derive_seed(one.seed, turn), tools=tools)
            )
        except Exhausted:
            self.exhausted += 1
            return Reply("", truncated=True)
        except Failed as reason:
            self.failures.append(str(reason))
            if not turn and not reason.final:
                return Reply("", lost=str(reason))
            return Reply("", refused=str(reason), truncated=str(reason).startswith("context too long"))
        if answer.finish_reason == "content_filter":
            self.failures.append("the server's content filter ended the reply")
            return Reply("", refused=self.failures[-1])
        reply = _reply(answer, {valid: own for own, valid in names.items()}, one.tools)
        if (message := answer.message) and _says(message, reply):
            self._said[one.key, turn] = reply.text, message
        return reply

    def _sent(self, one: Conversation, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """The conversation for the server: its own messages as it sent them, and ours of all other replies."""
        turns = itertools.count()

        def message(text: str) -> dict[str, Any]:
            said, own = self._said.get((one.key, next(turns)), ("", None))
            return own if own and said == text else _made(text, names)

        sent = told(one.messages, message)
        return [{key: value for key, value in said.items() if key != "name"} for said in sent]


def _names(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """For the name of each tool a different name that servers take. Valid names stay as they are."""
    names = [str(tool["function"]["name"]) for tool in tools]
    return {name: f"{_valid(name)}_{place}" if _valid(name) != name else name for place, name in enumerate(names)}


def _valid(name: str) -> str:
    return INVALID.sub("_", name)[:60] or "_"


def _made(text: str, names: Mapping[str, str]) -> dict[str, Any]:
    """A message of our own, with valid names and arguments as text. A model may have invented a name."""
    message = message_of(text)
    for call in message.get("tool_calls", ()):
        function = call["function"]
        name = names.get(function["name"], _valid(function["name"]))
        call["function"] = {"name": name, "arguments": json.dumps(function["arguments"])}
    if not message["content"]:  # which many servers refuse
        message["content"] = None if "tool_calls" in message else SILENT
    return message


def _says(message: Mapping[str, Any], reply: Reply) -> bool:
    """Whether the server's ``message`` holds what ``reply`` does, in the form that a server takes."""
    calls = message.get("tool_calls", ())
    functions = [call["function"] for call in calls]
    well = all(isinstance(one.get("arguments"), str) and one["name"] == _valid(one["name"]) for one in functions)
    return well and not reply.error and len(calls) == len(reply.calls) and bool(calls or message.get("content"))


def _reply(answer: Answer, names: Mapping[str, str], tools: Sequence[Mapping[str, Any]]) -> Reply:
    """The reply of the server. A server without a parser leaves calls in the text."""
    said, calls, error = answer.content, list[ToolCall](), ""
    if not answer.calls and MARKS.search(said):
        calls, error = parse_text(said, tools)
    if calls:
        thought, end, words = said.rpartition("</think>")
        said = thought + end + words[: MARKS.search(words).start()].rstrip()  # type: ignore[union-attr]
    for call in answer.calls:
        name = names.get(call.name, call.name)
        try:
            calls.append(call_of({"name": name, "arguments": json.loads(call.arguments or "{}")}))
        except (ValueError, RecursionError):
            error = error or f"the arguments of {name} must be a JSON object, not too deep or long"
            said += f"\n{OPEN}{name} {call.arguments}{CLOSE}"
    return Reply(
        "\n".join(filter(None, [said, *map(render_call, calls)])),
        [] if error else calls,
        invalid=bool(error),
        error=error,
        truncated=answer.finish_reason == "length" and (bool(error) or not calls),
        prompt_tokens=answer.prompt_tokens,
        reply_tokens=answer.completion_tokens,
    )

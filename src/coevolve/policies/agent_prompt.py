"""Convert between messages and text: the tokens that a turn adds to the prompt, and the calls in a reply."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.policies.policy import Conversation, Reply

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_MARK = "stand-in"  # the reply in the short conversation after which later turns are rendered
_STAND_IN = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _MARK}]


def render_call(call: ToolCall) -> str:
    """A call as text in a reply (the format of Hermes and Qwen)."""
    return f"{OPEN}{json.dumps({'name': call.name, 'arguments': call.arguments}, ensure_ascii=False)}{CLOSE}"


def parse_reply(text: str) -> tuple[list[ToolCall], str]:
    """The calls in ``text``, in order, and the error in the first unreadable call (or the empty string).

    A model's thoughts before its reply, between <think> and </think>, do not count.
    """
    calls: list[ToolCall] = []
    for part in text.rpartition("</think>")[2].split(OPEN)[1:]:
        body, closed, _ = part.partition(CLOSE)
        if not closed:
            return [], f"a call must end with {CLOSE}"
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return [], "a call must be JSON"
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return [], 'a call must be {"name": ..., "arguments": {...}}'
        arguments = value.get("arguments", {})
        if not isinstance(arguments, dict):
            return [], "arguments must be an object"
        if wrong := misfit(value["name"], arguments):
            return [], wrong
        calls.append(ToolCall(value["name"], arguments))
    return calls, ""


def read_reply(tokenizer: Any, prompt: list[int], ids: list[int], logprobs: list[float], ended: bool) -> Reply:
    """The reply for sampled ``ids``. ``ended``: the last id is an end token, which is not part of the text."""
    text = tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=True)
    calls, error = parse_reply(text) if ended else ([], "")
    return Reply(text, calls, prompt, ids, logprobs, bool(error), error, not ended)


class Renderer:
    """Turns of a conversation as token ids, by the tokenizer's chat template.

    The first prompt is rendered whole. A later turn is the text that the template adds after a finished reply. It is rendered
    after a stand-in conversation, so sampled ids are never tokenized again. The template gets ``variables``, such as Qwen3's
    ``enable_thinking``.
    """

    def __init__(self, tokenizer: Any, variables: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._end: str = tokenizer.eos_token
        self._variables = dict(variables or {})
        self._rendered = lru_cache(maxsize=4096)(self._suffix)

    def first(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[int]:
        return self._encode(self._text(list(messages), tools=list(tools) or None, add_generation_prompt=True))

    def later(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Ids of ``messages``, which are not the assistant's, after a reply that ended with the end token."""
        key = json.dumps([[m["role"], m["content"]] for m in messages])
        return list(self._rendered(key))

    def reply(self, text: str, ended: bool = True) -> list[int]:
        """Ids of a reply with this ``text``, with the end token if it ``ended``."""
        return self._encode(text + self._end if ended else text)

    def _suffix(self, key: str) -> tuple[int, ...]:
        messages = [{"role": role, "content": content} for role, content in json.loads(key)]
        whole = self._text([*_STAND_IN, *messages], add_generation_prompt=True)
        cut = whole.index(_MARK) + len(_MARK)
        rest = whole[cut:]
        return tuple(self._encode(rest[rest.find(self._end) + len(self._end) :] if self._end in rest else rest))

    def _text(self, messages: list[dict[str, Any]], **arguments: Any) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, **arguments, **self._variables)
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


class Listener:
    """The new messages of each conversation since its last reply, as token ids. ``begin`` forgets all conversations."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._seen: dict[int, int] = {}  # number of messages already rendered, including the reply

    @property
    def fresh(self) -> bool:
        """Whether no conversation has been rendered since ``begin``."""
        return not self._seen

    def begin(self) -> None:
        self._seen = {}

    def heard(self, one: Conversation) -> list[int]:
        seen = self._seen.get(one.key, 0)
        self._seen[one.key] = len(one.messages) + 1  # includes the next reply
        if seen:
            return self._renderer.later(one.messages[seen:])
        return self._renderer.first(one.messages, one.tools)


def check_template(tokenizer: Any, where: str) -> None:
    """Raise a CoevolveError unless the chat template can show tools to the model."""
    template = tokenizer.chat_template
    if template is None or tokenizer.eos_token_id is None:
        raise CoevolveError(f"{where}: the tokenizer needs a chat template and an end token; use a chat model")
    texts = template.values() if isinstance(template, dict) else [template]
    if not any("tools" in text for text in texts):
        raise CoevolveError(
            f"{where}: the chat template cannot show tools, so the model would not know them; use a model "
            "with a tool-calling template (Qwen2.5, Qwen3, Hermes), or write one into chat_template.jinja"
        )


def check_room(conversations: Sequence[Conversation], prompts: Sequence[Sequence[int]], context: int) -> None:
    """Raise a CoevolveError if a first prompt exceeds the model's context, or if no prompt fits into its episode."""
    for one, prompt in zip(conversations, prompts, strict=True):
        if len(prompt) >= context:
            raise CoevolveError(
                f"task {one.task.task_id}: context too long: the prompt with its {len(one.tools)} tool schemas has "
                f"{len(prompt)} tokens, but the model takes {context} with the reply: {len(prompt) - context + 1} too many; "
                "use a model with a longer context"
            )
    over = [len(prompt) - one.room for one, prompt in zip(conversations, prompts, strict=True)]
    if over and min(over) >= 0:
        longest = max(len(prompt) for prompt in prompts)
        raise CoevolveError(
            f"policy.episode_tokens is {conversations[0].room}, but every prompt with its {len(conversations[0].tools)} tool "
            f"schemas is longer, by {min(over)} to {max(over)} tokens; set it to more than {longest}, with room for replies"
        )

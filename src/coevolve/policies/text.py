"""Between messages and text: what a turn adds to the prompt, and the calls that a reply holds."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from coevolve.records import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
# how TRL's own loop reads the replies of the embedded policy: `tokenizer.response_template`
RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": OPEN,
            "close_pattern": rf"{CLOSE}\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|end\|>\s*", "content": "text"},
    },
}
_USER, _ASSISTANT = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}


def render_call(call: ToolCall) -> str:
    """A call as a reply holds it (the format of Hermes and Qwen)."""
    return f"{OPEN}{json.dumps({'name': call.name, 'arguments': call.arguments}, ensure_ascii=False)}{CLOSE}"


def parse_reply(text: str) -> tuple[list[ToolCall], str]:
    """The calls in ``text``, in order, and what is wrong with the first unreadable one (or the empty string)."""
    calls: list[ToolCall] = []
    for part in text.split(OPEN)[1:]:
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
        calls.append(ToolCall(value["name"], arguments))
    return calls, ""


class Renderer:
    """Turns of a conversation as token ids, by the tokenizer's own chat template.

    The first prompt is rendered whole. Later ones are what the template puts after a finished reply: rendered behind
    a stand-in conversation, so that the ids the model sampled are never re-tokenized.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._end: str = tokenizer.eos_token
        self._rendered = lru_cache(maxsize=4096)(self._suffix)

    def first(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[int]:
        text = self._tokenizer.apply_chat_template(
            list(messages), tools=list(tools) or None, add_generation_prompt=True, tokenize=False
        )
        return self._encode(text)

    def later(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Ids of ``messages`` (none the assistant's) after a reply that ended with the end token."""
        key = json.dumps([[m["role"], m["content"]] for m in messages])
        return list(self._rendered(key))

    def _suffix(self, key: str) -> tuple[int, ...]:
        messages = [{"role": role, "content": content} for role, content in json.loads(key)]
        stand_in = [_USER, _ASSISTANT]
        before = self._tokenizer.apply_chat_template(stand_in, tokenize=False)
        whole = self._tokenizer.apply_chat_template([*stand_in, *messages], add_generation_prompt=True, tokenize=False)
        cut = before.rfind(self._end)
        cut = cut + len(self._end) if cut >= 0 else len(before)
        return tuple(self._encode(whole[cut:]))

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

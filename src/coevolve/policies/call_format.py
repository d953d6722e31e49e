"""The forms of a call in a reply: ours, and that in which a family of models writes calls and thoughts.

Ours is JSON in <tool_call> tags, as in Hermes and Qwen. transformers calls the description of another form a response template. A
tokenizer may have its own, and TRL knows those of many chat templates.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.task import ToolCall, misfit

# what stands around calls in the text of any family that we know
MARKS = re.compile(
    r"<[^<>]{0,40}tool[_▁]call|<function|<[\w:]*invoke|\[TOOL_CALLS\]|<\|python_tag\|>|\bto=functions\.", re.I
)
UNREADABLE = "the reply holds the marks of a call, but no call can be read"
OPEN, CLOSE = "<tool_call>", "</tool_call>"
Tools = Sequence[Mapping[str, Any]]


def render_call(call: ToolCall) -> str:
    """A call as text in a reply (the format of Hermes and Qwen)."""
    return f"{OPEN}{json.dumps({'name': call.name, 'arguments': call.arguments}, ensure_ascii=False)}{CLOSE}"


def parse_reply(text: str) -> tuple[list[ToolCall], str]:
    """The calls in ``text``, in order, and the error in the first unreadable call (or the empty string).

    Thoughts between <think> and </think> hold no calls. A thought without an end hides all calls after it.
    """
    calls: list[ToolCall] = []
    said = text.rpartition("</think>")[2]
    if CLOSE in said.partition(OPEN)[0]:  # the tag stands in an argument
        said = text.partition("</think>")[2] if text.lstrip().startswith("<think>") else text
    words, opened, _ = said.partition(OPEN)
    if (opened and "<think>" in words) or (not said.strip() and OPEN in text):
        return [], "a thought must end with </think> before a call"
    for part in said.split(OPEN)[1:]:
        body, closed, _ = part.partition(CLOSE)
        if not closed:
            return [], f"a call must end with {CLOSE}"
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return [], "a call must be JSON"
        try:
            calls.append(call_of(value))
        except ValueError as error:
            return [], str(error)
    return calls, ""


def parse_text(text: str, tools: Tools = ()) -> tuple[list[ToolCall], str]:
    """The calls in a reply that may have the form of any family, as ``parse_reply`` gives them. It knows no chat template."""
    calls, error = parse_reply(text)
    if calls or not MARKS.search(text.rpartition("</think>")[2]):
        return calls, error
    read = (form.read(text, "", tools) for form in formats())
    return next(((said.calls, "") for said in read if said.calls), ([], error or UNREADABLE))


class Said(NamedTuple):
    """A reply that was read: its thought, its words, its calls, and the error in the calls (then there are none)."""

    thought: str
    words: str
    calls: list[ToolCall]
    error: str


@dataclass(frozen=True)
class CallFormat:
    """A response template, and the chat template that TRL uses in training, if it has one for the model."""

    response: Mapping[str, Any]
    training: str | None = None

    @property
    def thought(self) -> str:
        """The key of the thought in a message."""
        return next((name for name in self.response["fields"] if name not in ("content", "tool_calls")), "thinking")

    def read(self, text: str, prompt: str, tools: Tools) -> Said:
        """Read the reply ``text``, with its end token, after ``prompt``. Any text becomes calls or an error."""
        from transformers.utils.chat_parsing import ResponseParser
        from transformers.utils.chat_parsing.response_templates import load_response_template

        form = self.response["fields"].get("tool_calls", {})
        # JSON holds its types; values that are written as text take those of the tool's schema
        schemas = None if form.get("content") == "json" else [dict(tool) for tool in tools]
        regions: list[tuple[str, str, Any]] = []
        body = ""
        try:
            whole = load_response_template(dict(self.response))
            before = prompt if whole.start_anchor_re.search(prompt) else ""
            parser = ResponseParser(whole, prefix=before, tools=schemas)
            for event in [*parser.initial_events, *parser.feed(text), *parser.finalize()[1]]:
                if event["type"] == "region_open":
                    body = ""
                elif event["type"] == "region_chunk":
                    body += event["text"]
                else:
                    regions.append((event["field"], body, event["value"]))
            made = (_made(written, value, form) for name, written, value in regions if name == "tool_calls")
            calls = list(chain.from_iterable(made))
        except Exception as error:  # a description may hold any rule, and a reply any text
            return Said("", text, [], f"a call cannot be read: {first_line(error)}")
        thought = "\n".join(str(value) for name, _, value in regions if name == self.thought)
        words = "\n".join(str(value) for name, _, value in regions if name == "content" and value)
        unread = not calls and MARKS.search(words or thought)
        return Said(thought, words, calls, UNREADABLE if unread else "")


def _made(written: str, value: Any, form: Mapping[str, Any]) -> Iterator[ToolCall]:
    """The calls of a region. Raises a ValueError, in words for the agent, for a call that is not whole."""
    pattern = form.get("content_args", {}).get("tag_pattern")
    if pattern:
        rest = re.sub(pattern, "", written, flags=re.DOTALL)
        if left := re.sub(r"</\w+>|[\s,]", "", rest):
            raise ValueError(f"this part of it is no argument: {left[:80]!r}")
    for call in value if isinstance(value, list) else [value]:
        yield call_of(call.get("function", call))


def call_of(value: Any) -> ToolCall:
    """The call of a JSON value. Raises a ValueError, in words for the agent, if it is none."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError('a call must be {"name": ..., "arguments": {...}}')
    arguments = value.get("arguments", value.get("parameters", {}))
    if not isinstance(arguments, dict):
        raise ValueError("arguments must be an object")
    if wrong := misfit(value["name"], arguments):
        raise ValueError(wrong)
    return ToolCall(value["name"], arguments)


@cache
def formats() -> list[CallFormat]:
    """The forms that TRL knows. Of a value that is written as text, only a line break on each side belongs to the form."""
    from trl import chat_template_utils as known

    named = [value for name, value in vars(known).items() if name.endswith("_template") and isinstance(value, dict)]
    forms = deepcopy([form for form in named if "tool_calls" in form["fields"]])
    for values in (form["fields"]["tool_calls"].get("content_args", {}) for form in forms):
        if values.get("value_parser", {}).get("name") == "text":
            stripped, whole = r"\s*(?P<value>.*?)\s*", r"\n?(?P<value>.*?)\n?"
            values["tag_pattern"] = values["tag_pattern"].replace(stripped, whole)
            values["value_parser"] = {"name": "text", "args": {"strip": False}}
    return list(map(CallFormat, forms))


def call_format(tokenizer: Any, written: Callable[[ToolCall], tuple[str, str]]) -> CallFormat | None:
    """The form of the tokenizer's model: its own response template, or the first of TRL's that reads a call of the chat template.

    ``written`` gives a call as the chat template writes it, and the prompt before it. None means that the template is unknown to
    TRL, and calls are JSON in <tool_call> tags, as in Hermes, or in no known form.
    """
    from trl.chat_template_utils import get_training_chat_template

    try:
        training, known = get_training_chat_template(tokenizer), True
    except Exception:  # TRL has no template for training, or the template refuses its conversation
        training, known = None, False
    response = getattr(tokenizer, "response_template", None) or _reading(written, known)
    return CallFormat(response, training) if response else None


def _reading(written: Callable[[ToolCall], tuple[str, str]], known: bool) -> Mapping[str, Any] | None:
    """The first of TRL's forms that reads a template's own call. Hermes' needs none, unless TRL has ``known`` the template."""
    call = ToolCall("look_up", {"title": "a word"})
    try:
        text, prompt = written(call)
    except CoevolveError:
        return None
    hermes = f'{{"name": "{call.name}", "arguments": {json.dumps(call.arguments)}}}'
    if call.name not in text or (hermes in text and not known):
        return None
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": call.name, "parameters": schema}}]
    return next((form.response for form in formats() if form.read(text, prompt, tools).calls == [call]), None)

"""Convert between messages and text: the tokens that a turn adds to the prompt. call_format.py reads the calls in a reply."""

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.task import ToolCall
from coevolve.policies.call_format import OPEN, Said, Tools, call_format, parse_reply, parse_text, render_call
from coevolve.policies.policy import Conversation, Reply

OWN = "{# no list of tools: this model knows its tools by heart #}"  # only the embedded model's template holds it
_MARK = "stand-in"  # the reply in the short conversation after which later turns are rendered
_ASKED = {"role": "user", "content": "a"}
PREFIX = 64  # tokens of a prompt, enough for the start of a reply
# by these variables some templates keep the thoughts of earlier turns, as rollouts and training do
KEPT = {"preserve_thinking": True, "truncate_history_thinking": False, "clear_thinking": False}


def message_of(text: str) -> dict[str, Any]:
    """The recorded reply ``text`` in OpenAI's format, with arguments as objects. An unreadable reply is content."""
    calls, _ = parse_reply(text)
    if not calls:
        return {"role": "assistant", "content": text}
    made = [{"type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls]
    return {"role": "assistant", "content": text.partition(OPEN)[0].strip(), "tool_calls": made}


def told(
    messages: Sequence[dict[str, Any]], message: Callable[[str], dict[str, Any]] = message_of
) -> list[dict[str, Any]]:
    """Recorded ``messages`` as templates and servers take them: each call has an id, and one answer, which names it.

    An answer without a call is the user's. ``message`` gives a reply in OpenAI's format.
    """
    said: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    ids = itertools.count()
    for one in messages:
        answered = one["role"] == "tool" and bool(waiting)
        for content in [one["content"]] if answered else ["not carried out"] * len(waiting):
            call = waiting.pop(0)
            name = call["function"]["name"]
            said.append({"role": "tool", "tool_call_id": call["id"], "name": name, "content": content})
        if one["role"] == "assistant":
            said.append(message(one["content"]))
            waiting = said[-1].get("tool_calls", [])[:]
            for call in waiting:
                call["id"] = call.get("id") or f"call{next(ids):05d}"  # as Mistral wants it: nine letters and digits
        elif not answered:
            said.append({"role": "user" if one["role"] == "tool" else one["role"], "content": one["content"]})
    return said


def agreement(one: str, other: str) -> int:
    """The number of characters at the start of both texts that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (here, there) in pairs if here != there), min(len(one), len(other)))


class TemplateRefusal(CoevolveError):
    """A chat template cannot render a conversation."""


class Renderer:
    """A model's language: the turns of a conversation as token ids, and the calls in its replies.

    The first prompt is rendered whole. A later turn is the text that the template adds after a finished reply. It is rendered
    after a stand-in conversation, so sampled ids are never tokenized again. The template gets ``variables``, such as Qwen3's
    ``enable_thinking``. ``date_string`` also fixes the date of templates that ask for today's.

    Recorded replies hold their thought in <think> tags, then words, then calls as ``render_call`` writes them. If the model has a
    ``CallFormat``, its template writes them in its own form, and TRL's template for training does that if there is one. All other
    templates get the recorded text.
    """

    def __init__(self, tokenizer: Any, variables: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._end: str = tokenizer.eos_token
        self._arguments: dict[str, Any] = {**KEPT, **(variables or {})}
        if day := self._arguments.get("date_string"):
            from dateutil.parser import parse as parse_date

            self._arguments["date_string"] = str(day)  # a date in YAML is no text
            self._arguments["strftime_now"] = lambda form: parse_date(str(day)).strftime(form)
        self._closed = ""
        self._own = OWN in str(tokenizer.chat_template)
        self.format = None if self._own else call_format(tokenizer, self.written)
        marks = [self._end]
        if self.format:
            marks += (token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
            if self.format.training:
                self._arguments["chat_template"] = self.format.training
            prompt = self.text([_ASKED], add_generation_prompt=True)
            # a prompt that opens a thought: a reply without one closes it
            if not self.text([_ASKED, {"role": "assistant", "content": _MARK}]).startswith(prompt):
                self._closed = "<think>\n</think>"
        self._marks = re.compile(rf"\s*({'|'.join(map(re.escape, sorted(marks, key=len, reverse=True)))})")
        self._turn = lru_cache(maxsize=4096)(self._rendered)
        self._ids = lru_cache(maxsize=4096)(self._encode)  # answers repeat in a rollout

    def first(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[int]:
        return self._encode(self.text(messages, tools=list(tools) or None, add_generation_prompt=True))

    def later(self, messages: Sequence[dict[str, Any]], said: str = _MARK) -> list[int]:
        """Ids of ``messages``, which are not the assistant's, after the reply ``said`` that ended with the end token."""
        # its words and thoughts do not matter, and its calls only for templates that take them
        calls = parse_reply(said)[0] if self.format else []
        try:
            rest = self._turn("\n".join(map(render_call, calls)) or _MARK, _key(messages))[1]
        except TemplateRefusal:  # such as of several calls
            rest = self._turn(_MARK, _key(messages))[1]
        return list(self._ids(rest))

    def reply(self, text: str, ended: bool = True) -> list[int]:
        """Ids of the recorded reply ``text``, with the end token if it ``ended``."""
        return self._encode(self.spoken(text) if ended else text)

    def read(self, prompt: list[int], ids: list[int], logprobs: list[float], ended: bool, tools: Tools) -> Reply:
        """The reply for ``ids``, sampled after ``prompt``. ``ended``: the last id is an end token, not part of the text."""
        raw = text = self._tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=not self.format)
        if not ended:
            return Reply(text, [], prompt, ids, logprobs, truncated=True)
        end = self._tokenizer.decode(ids[-1:]) if self.format else ""
        thought, words, calls, error = self.said(raw + end, self._tokenizer.decode(prompt[-PREFIX:]), tools)
        if self.format and not error:
            thoughts = f"<think>\n{thought}\n</think>\n" if thought else ""
            text = "\n".join(filter(None, [thoughts, words.removesuffix(end).strip(), *map(render_call, calls)]))
        return Reply(text, calls, prompt, ids, logprobs, bool(error), error)

    def said(self, text: str, prompt: str, tools: Tools) -> Said:
        """Read a reply, with its end token in ``text`` if the model has a ``CallFormat``, after ``prompt``."""
        if self.format:
            return self.format.read(text, prompt, tools)
        return Said("", text, *(parse_reply(text) if self._own else parse_text(text, tools)))

    def written(self, call: ToolCall) -> tuple[str, str]:
        """The template's text of a reply with ``call``, and of the prompt before it."""
        messages = told([_ASKED, {"role": "assistant", "content": render_call(call)}], self._message)
        prompt, whole = self._text([_ASKED], add_generation_prompt=True), self._text(messages)
        return whole[agreement(prompt, whole) :], prompt

    def text(self, messages: Sequence[dict[str, Any]], **arguments: Any) -> str:
        """The template's text of recorded ``messages``. ``arguments`` are those of ``apply_chat_template``."""
        return self._text(told(messages, self._message) if self.format else messages, **arguments)

    def _message(self, text: str) -> dict[str, Any]:
        """The recorded reply ``text`` as a message."""
        thought, _, rest = text.rpartition("</think>")
        message = message_of(rest.strip())
        if thought and self.format:
            message[self.format.thought] = thought.removeprefix("<think>").strip()
        elif self._closed:
            message["content"] = self._closed + message["content"]
        return message

    def spoken(self, text: str) -> str:
        """The recorded reply ``text`` as the model says it, with its end token."""
        if self.format:
            answer = {"role": "tool" if parse_reply(text)[0] else "user", "content": "b"}
            # a prompt may forbid a thought, and an unreadable reply may hold marks that the template refuses
            for said in (text, text.rpartition("</think>")[2]):
                with suppress(TemplateRefusal):
                    return self._turn(said, _key([answer]))[0]
        return text + self._end

    def _rendered(self, said: str, later: str) -> tuple[str, str]:
        """The text of the reply ``said`` with its end token, and the text after it up to the next reply."""
        before = [_ASKED, {"role": "assistant", "content": said}]
        prompt, alone = self.text(before[:1], add_generation_prompt=True), self.text(before).rstrip()
        whole = self.text([*before, *json.loads(later)], add_generation_prompt=True)
        start = agreement(prompt, alone)
        last = next((mark for mark in self._marks.finditer(alone, start) if mark.end() == len(alone)), None)
        reply = alone[start : last.start() if last else None]
        # some templates also write an empty thought only in the last turn
        spoken = reply.rpartition("</think>")[2].strip() if self.format else said
        place = max(whole.find(spoken, start), whole.rfind(spoken, 0, start + len(spoken)))
        if place < 0 or (self.format and prompt[start:].strip()):
            raise TemplateRefusal("the chat template does not write a reply after its prompt for a reply")
        place += len(spoken)
        mark = self._marks.match(whole, place)
        end = alone[start + len(reply) :] or (mark[1] if mark else self._end)
        return reply + end, whole[mark.end() if mark else place :]

    def _text(self, messages: Sequence[dict[str, Any]], **arguments: Any) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, **arguments, **self._arguments)
        # templates join texts with arguments, which are objects, and a date_string may be no date
        except (TemplateError, TypeError, ValueError) as error:
            raise TemplateRefusal(f"the chat template refuses a conversation: {first_line(error)}") from None
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


def _key(messages: Sequence[dict[str, Any]]) -> str:
    return json.dumps([{"role": message["role"], "content": message["content"]} for message in messages])


class Listener:
    """The new messages of each conversation since its last reply, as token ids. ``begin`` forgets all conversations."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
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
            return self.renderer.later(one.messages[seen:], one.messages[seen - 1]["content"])
        return self.renderer.first(one.messages, one.tools)


def check_template(tokenizer: Any, where: str) -> None:
    """Raise a CoevolveError unless the chat template can show tools to the model."""
    template = tokenizer.chat_template
    if template is None or tokenizer.eos_token_id is None:
        raise CoevolveError(f"{where}: the tokenizer needs a chat template and an end token; use a chat model")
    texts = template.values() if isinstance(template, dict) else [template]
    if not any("tools" in text for text in texts):
        raise CoevolveError(
            f"{where}: the chat template cannot show tools, so the model would not know them; use a model "
            "with a tool-calling template (docs/chat-templates.md), or write one into chat_template.jinja"
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

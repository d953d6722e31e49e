"""Calls in the text of a reply, as a trainer decoded it: ours and Qwen's in JSON, and those of other families by TRL's templates."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from coevolve.core.calls import misfit
from coevolve.core.task import ToolCall
from coevolve.policies.agent_prompt import OPEN, parse_reply

ANSWER, ANSWER_END = "<tool_response>", "</tool_response>"
# A mark in the text → the response template of TRL that reads it, and the end token that decoding dropped
TEMPLATES = {
    "<function=": ("qwen3_5_template", ""),  # and Qwen3-Coder, Nemotron 3
    "<arg_key>": ("glm4moe_template", ""),
    "<|tool_call>": ("gemma4_template", ""),
    "<|tool_call_start|>": ("lfm2_2_5_template", ""),
    '"parameters":': ("llama3_template", "<|eot_id|>"),
}
MARKS = (
    OPEN,
    "<function=",
    "<|tool_call",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "to=functions.",
    "<｜tool▁call",
    "<invoke ",
)
MOST = 10_000  # characters that TRL's patterns read: some of them take quadratic time


def read_calls(text: str, tools: Sequence[Mapping[str, Any]]) -> tuple[list[ToolCall], str]:
    """The calls in a reply, and what follows its first mark of a call (empty without a mark).

    The schemas of ``tools`` turn values that a family writes as text into their types.
    """
    said = text.rpartition("</think>")[2]
    calls = parse_reply(text)[0] or _by_templates(said, tools)
    found = [place for mark in MARKS if (place := said.find(mark)) >= 0]
    return calls, said[min(found) :] if found else ""


def _by_templates(text: str, tools: Sequence[Mapping[str, Any]]) -> list[ToolCall]:
    for mark, (name, end) in TEMPLATES.items():
        if mark not in text or len(text) > MOST or (template := _template(name)) is None:
            continue
        from transformers.utils.chat_parsing import parse_response

        try:
            message = parse_response(text + end, template, prefix="", tools=list(tools))
        except (ValueError, TypeError):  # it does not hold what its marks promise
            continue
        functions = [call["function"] for call in message.get("tool_calls") or []]
        if functions and not any(misfit(call["name"], call["arguments"]) for call in functions):
            return [ToolCall(call["name"], call["arguments"]) for call in functions]
    return []


@cache
def _template(name: str) -> dict[str, Any] | None:
    """A response template of TRL; None without TRL, or in versions without it."""
    try:
        from trl import chat_template_utils
    except ImportError:
        return None
    template: dict[str, Any] | None = getattr(chat_template_utils, name, None)
    return template

"""Every family of models in TRL's package: its template's calls are read back, and its model can play and train."""

import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.success import is_success
from coevolve.core.task import ToolCall
from coevolve.environments.registry import make
from coevolve.policies.agent_prompt import Listener, Renderer
from coevolve.policies.call_format import parse_reply, parse_text, render_call
from coevolve.policies.policy import Conversation, Reply
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import RolloutRequest, rollout
from coevolve.stages.train.chat_template import BROKEN, WORKS, diagnose
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from tests import ROOT
from tests.families import LIMITS, broken, files, findings, rows, tokenizer

WORLD = make("miniworld")
REFUSED = {  # family: words of the doctor's line
    "deepseek_r1_distill": "cannot show tools",
    "deepseekv3": "cannot show tools",
    "diffusion_gemma": "changes earlier turns",  # its prompt after an answer lacks the header that the next reply then has
    "lfm2": "writes no calls",
}
FORMS = [
    "qwen3",
    "qwen3_5_think",
    "glm4moe",
    "gemma4",
    "gptoss",
    "llama3_1",
    "lfm2_2_5",
    "nemotron_3_nano",
    "muse_glimmer",
]
PARAMETERS = {"subject": {"type": "string"}, "days": {"type": "integer"}, "all": {"type": "boolean"}}
TOOL = {"name": "find", "description": "", "parameters": {"type": "object", "properties": PARAMETERS}}
TOOLS = [{"type": "function", "function": TOOL}]
CALL = ToolCall("find", {"all": True, "days": 7, "subject": "7"})  # sorted, as Gemma writes them


class Speaker(ReferencePolicy):
    """Says each reference in the language of a model, and acts on what is read back from its tokens."""

    def __init__(self, renderer: Renderer) -> None:
        super().__init__(WORLD)
        self._listener = Listener(renderer)

    def act(self, conversations: list[Conversation]) -> list[Reply]:  # type: ignore[override]
        return [self._said(one, reply) for one, reply in zip(conversations, super().act(conversations), strict=True)]

    def _said(self, one: Conversation, reply: Reply) -> Reply:
        renderer = self._listener.renderer
        prompt, ids = self._listener.heard(one), renderer.reply(reply.text)
        read = renderer.read(prompt, ids, [0.0] * len(ids), True, one.tools)
        assert (read.calls, read.error) == (reply.calls, "")
        return read


def read(family: str, text: str, prompt: str = "") -> Reply:
    """The reply to a first prompt, of the sampled ``text`` with its end token."""
    words = tokenizer(family)
    renderer = Renderer(words)
    first = renderer.first([{"role": "user", "content": "go"}], TOOLS)
    ids = words.encode(text, add_special_tokens=False)
    return renderer.read(first, ids, [0.0] * len(ids), True, TOOLS)


@pytest.mark.parametrize("family", files())
def test_family_passes_the_doctor_and_plays_references_or_is_refused(family: str) -> None:
    if family in REFUSED:
        assert any(REFUSED[family] in text for text in broken(family)), findings(family)
        return
    assert broken(family) == []
    requests = [RolloutRequest(task, 0) for task in WORLD.tasks("seed")[:1]]
    episodes = rollout(Speaker(Renderer(tokenizer(family))), WORLD, requests, LIMITS)
    assert all(is_success(episode.trajectory.score) for episode in episodes)


@pytest.mark.parametrize("family", ["qwen3_5_think", "gemma4"])
def test_fork_of_a_template_is_recognized_by_its_call(family: str) -> None:
    """TRL compares whole templates, so it does not know unsloth's Qwen3.5 (trl#5724)."""
    words = tokenizer(family)
    words.chat_template = "{# a fork #}" + words.chat_template
    states = {one.name: one.state for one in diagnose(words, {}, Miniworld(), "seed", LIMITS)}
    assert states["calls"] == states["mask"] == WORKS and states["stop"] != BROKEN and "template" not in states
    episodes = rollout(Speaker(Renderer(words)), WORLD, [RolloutRequest(WORLD.tasks("seed")[0], 0)], LIMITS)
    assert is_success(episodes[0].trajectory.score)


def test_most_families_are_understood_and_the_page_names_each() -> None:
    assert len(files()) - len(REFUSED) >= 26
    page = (ROOT / "docs/chat-templates.md").read_text()
    assert "\n".join(rows()) in page, "run `python -m tests.families` and copy the table into the page"


@pytest.mark.parametrize("family", FORMS)
def test_calls_with_typed_values_are_written_and_read(family: str) -> None:
    renderer = Renderer(tokenizer(family))
    reply = read(family, renderer.spoken(render_call(CALL)))
    assert (reply.calls, reply.error, reply.text) == ([CALL], "", render_call(CALL))
    assert all(type(value) is type(CALL.arguments[name]) for name, value in reply.calls[0].arguments.items())


@pytest.mark.parametrize("family", [name for name in FORMS if name not in ("llama3_1", "gptoss")])
def test_parallel_calls_after_a_thought_are_all_made_and_recorded(family: str) -> None:
    recorded = f"<think>\nfirst I look\n</think>\n\n{render_call(CALL)}\n{render_call(CALL)}"
    reply = read(family, Renderer(tokenizer(family)).spoken(recorded))
    assert (reply.calls, reply.error, reply.text) == ([CALL, CALL], "", recorded)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("qwen3", "<think>\nperhaps {call}\n</think>\n\nnothing to do<|im_end|>"),
        ("qwen3_5_think", "perhaps {call}\n</think>\n\nnothing to do<|im_end|>"),
        ("gemma4", "<|channel>thought\nperhaps {call}<channel|>nothing to do<turn|>"),
    ],
)
def test_call_in_a_thought_is_not_made(family: str, text: str) -> None:
    call = "".join(
        Renderer(tokenizer(family)).spoken(render_call(CALL)).rpartition("</think>")[2].split("<|im_end|>")[0]
    )
    reply = read(family, text.replace("{call}", call.strip()))
    assert (reply.calls, reply.error) == ([], "") and reply.text.endswith("nothing to do")


UNREADABLE = [
    ("qwen3_5_think", "</think>\n\n<tool_call>\n<function=find>\n<parameter=subject>\nre<|im_end|>", "no argument"),
    ("qwen3_5_think", '</think>\n\n<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call><|im_end|>', "no call can"),
    ("qwen3_5_think", "a thought <tool_call>\n<function=find>\n</function>\n</tool_call><|im_end|>", "no call can be read"),
    (
        "qwen3_5_think",
        "</think>\n<tool_call>\n<function=find>\n<parameter=subject>\na </parameter> b\n</parameter>\n</function>\n</tool_call>"
        "<|im_end|>",
        "no argument: 'b",
    ),
    ("qwen3", '<tool_call>\n{"name": "find", "arguments": \n</tool_call><|im_end|>', "a call cannot be read"),
    ("llama3_1", '{"name": "find", "parameters": {"subject": }}<|eot_id|>', "a call cannot be read"),
    ("gptoss", " to=functions.find<|channel|>commentary json<|message|>{<|call|>", "a call cannot be read"),
    ("gemma4", "<|tool_call>call:find{subject:}<tool_call|><turn|>", "a call cannot be read"),
    ("lfm2_2_5", "<|tool_call_start|>find the mail<|tool_call_end|><|im_end|>", "no call can be read"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "text", "error"), UNREADABLE)
def test_unreadable_call_is_an_error_in_words(family: str, text: str, error: str) -> None:
    reply = read(family, text)
    assert reply.invalid and reply.calls == [] and error in reply.error
    assert reply.text in text, "the record shows what the model said"


def test_parts_of_content_are_joined_and_stand_before_the_calls() -> None:
    call = '<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>'
    reply = read("qwen3", f"I look. {call}\nThen I see.<|im_end|>")
    assert reply.text == "I look.\nThen I see.\n" + render_call(ToolCall("find", {}))


@given(st.data())
def test_any_text_becomes_calls_or_one_error(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(FORMS))
    marks = st.sampled_from(sorted({*re.findall(r"<[^<>\s]+>|\{|\}|\[|\]|=|\n|\"", WRITTEN[family])}))
    text = "".join(data.draw(st.lists(marks | st.text(max_size=5) | st.just(WRITTEN[family]), max_size=8)))
    said = RENDERERS[family].said(text, "", TOOLS)
    assert not (said.calls and said.error)
    parse_text(text, TOOLS)
    answer = [{"role": "tool", "content": "not readable: a word"}]
    if not parse_reply(text)[0]:
        assert RENDERERS[family].later(answer, text) == RENDERERS[family].later(answer, "plain words")
    assert RENDERERS[family].spoken(text)


RENDERERS = {family: Renderer(tokenizer(family)) for family in FORMS}
WRITTEN = {family: renderer.spoken(render_call(CALL)) for family, renderer in RENDERERS.items()}


def test_thought_that_the_prompt_opens_is_recorded_and_said_again() -> None:
    """TRL rendered such a reply as an empty thought, the words, and a lone end of a thought (trl#6361)."""
    text = "2 and 2 are 4.\n</think>\n\nIt is 4.<|im_end|>"
    reply = read("qwen3_5_think", text)
    assert reply.text == "<think>\n2 and 2 are 4.\n</think>\n\nIt is 4."
    assert RENDERERS["qwen3_5_think"].spoken(reply.text) == text


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5_think", "glm4moe", "gemma4", "gptoss", "lfm2_2_5"])
def test_flat_text_of_any_family_is_read_without_its_template(family: str) -> None:
    calls, error = parse_text(WRITTEN[family].rpartition("</think>")[2], TOOLS)
    assert (calls, error) == ([CALL], "")


def test_flat_text_with_the_marks_of_an_unreadable_call_says_so() -> None:
    for text in ("<function_calls><invoke name='x'>", "[TOOL_CALLS]find{", "<tool_call>find the mail</tool_call>"):
        calls, error = parse_text(text)
        assert calls == [] and error, text
    assert parse_text("I call it a day") == ([], "")


def test_hermes_calls_with_odd_words_are_read() -> None:
    call = ToolCall("write", {"text": "a </think> tag"})
    assert parse_reply(render_call(call)) == ([call], "")
    assert parse_reply(f"<think>hm</think>{render_call(call)}") == ([call], "")
    assert parse_reply('<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>') == (
        [ToolCall("f", {"a": 1})],
        "",
    )
    for text in (f"<think>I could {render_call(CALL)}", f"<think>{render_call(CALL)}</think>"):
        assert parse_reply(text) == ([], "a thought must end with </think> before a call")
    assert parse_reply(f"<think>{render_call(CALL)}</think>done") == ([], "")


GRANITE = "{{ 'Today: ' + strftime_now('%B %d, %Y') }}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"


@pytest.mark.parametrize("family", ["llama3_2", "gptoss", "muse_glimmer", "granite"])
@pytest.mark.parametrize("day", ["26 Jul 2024", "2024-07-26", date(2024, 7, 26)])
def test_date_string_fixes_the_date_of_any_template(family: str, day: Any) -> None:
    words = tokenizer("llama3_2" if family == "granite" else family)
    if family == "granite":  # Granite's asks the clock, and has no variable
        words.chat_template = GRANITE
    said = [{"role": "user", "content": "go"}]
    assert str(date.today().year) in Renderer(words).text(said)
    fixed = Renderer(words, {"date_string": day}).text(said)
    assert "2024" in fixed and str(date.today().year) not in fixed.replace("2024-06", "").replace("2026-01-04", "")

"""Qwen's native tool calling with its real templates, and errors for models that do not fit."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.environments.registry import make
from coevolve.policies.agent_prompt import Renderer, check_template, parse_reply, render_call
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests.unit.policies.qwen import make_qwen3, tokenizer

WORLD = make("miniworld")
CALL = '<tool_call>\n{"name": "find_mail", "arguments": {"subject": "rent"}}\n</tool_call>'


@pytest.mark.parametrize("name", ["qwen3", "qwen2_5", "qwen3_instruct_2507"])
def test_rendered_turns_equal_the_template_of_the_whole_conversation(name: str) -> None:
    words = tokenizer(name)
    renderer = Renderer(words)
    tools = list(WORLD.tools())
    first = [{"role": "user", "content": "archive the mail about rent"}]
    heard = [{"role": "tool", "content": '[{"id":"m1"}]'}, {"role": "tool", "content": "ok"}]
    function = {"name": "find_mail", "arguments": {"subject": "rent"}}
    calls = [{"type": "function", "function": function}] * 2
    ids = renderer.first(first, tools)
    ids += words.encode(f"{CALL}\n{CALL}<|im_end|>", add_special_tokens=False)
    ids += renderer.later(heard, f"{CALL}\n{CALL}")
    ids += words.encode("done<|im_end|>", add_special_tokens=False)
    ids += renderer.later([{"role": "user", "content": "and now the one about tax"}], "done")
    messages = [
        *first, {"role": "assistant", "content": "", "tool_calls": calls}, *heard,
        {"role": "assistant", "content": "done"}, {"role": "user", "content": "and now the one about tax"},
    ]  # fmt: skip
    whole = words.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
    assert words.decode(ids) == whole
    assert '"name": "find_mail"' in whole


def test_template_variables_reach_the_template() -> None:
    thinking, plain = (Renderer(tokenizer(), {"enable_thinking": on}) for on in (True, False))
    message = [{"role": "tool", "content": "ok"}]
    assert "<think>" in tokenizer().decode(plain.later(message))
    assert "<think>" not in tokenizer().decode(thinking.later(message))


def test_calls_in_thoughts_are_ignored_and_parallel_calls_are_all_made() -> None:
    text = f"<think>\nI could use <tool_call>nonsense</tool_call>\n</think>\n\n{CALL}\n{CALL}"
    calls, error = parse_reply(text)
    assert not error
    assert calls == [ToolCall("find_mail", {"subject": "rent"})] * 2
    assert parse_reply(render_call(calls[0])) == (calls[:1], "")


def test_template_without_tools_is_a_clear_error(tmp_path: Path) -> None:
    words = tokenizer()
    words.chat_template = "{% for message in messages %}{{ message['content'] }}<|im_end|>{% endfor %}"
    with pytest.raises(CoevolveError, match="somewhere: the chat template cannot show tools"):
        check_template(words, "somewhere")
    folder = make_qwen3(tmp_path / "model")
    (folder / "chat_template.jinja").write_text(words.chat_template)
    with pytest.raises(CoevolveError, match="the chat template cannot show tools"):
        load(folder)


def test_context_too_short_for_the_schemas_reports_the_excess(tmp_path: Path) -> None:
    task = WORLD.tasks("seed")[0]
    model, words = load(make_qwen3(tmp_path / "short", context=512))
    start = WORLD.open().reset(task)
    wanted = len(Renderer(words).first([{"role": "user", "content": start.content}], start.tools or []))
    policy = TransformersPolicy(model, words, 0.0)
    with pytest.raises(CoevolveError, match=rf"31 tool schemas has {wanted} tokens, .*: {wanted - 511} too many"):
        rollout(policy, WORLD, [RolloutRequest(task, 0)], Limits(4, 10**6, 16, 60.0))
    model, words = load(make_qwen3(tmp_path / "long", context=2**15))
    with pytest.raises(CoevolveError, match=rf"policy.episode_tokens is 600, .* set it to more than {wanted}"):
        rollout(TransformersPolicy(model, words, 0.0), WORLD, [RolloutRequest(task, 0)], Limits(4, 600, 16, 60.0))

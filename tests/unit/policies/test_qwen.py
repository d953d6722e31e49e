"""Qwen's native tool calling with its real templates, and errors for models that do not fit."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.environments.registry import make
from coevolve.policies.agent_prompt import Renderer, check_template
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests.unit.policies.qwen import make_qwen3, tokenizer

WORLD = make("miniworld")


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

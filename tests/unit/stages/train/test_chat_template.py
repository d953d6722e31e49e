"""The doctor reports which chat templates training would get wrong."""

import json
from pathlib import Path

import pytest

from coevolve.policies.agent_prompt import OWN
from coevolve.policies.tokenizer import TEMPLATE, build
from coevolve.rollout import Limits
from coevolve.stages.train.chat_template import ABSENT, BROKEN, WORKS, Diagnosis, diagnose, load_tokenizer
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from tests import ROOT
from tests.cli import coevolve
from tests.families import LIMITS
from tests.families import tokenizer as family

TOOLS = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
TURN = "<|{{ message['role'] }}|>{{ message['content'] }}"
OPEN_REPLY = "{% if add_generation_prompt %}<|assistant|>{% endif %}"

needs_smollm2 = pytest.mark.skipif(
    not (ROOT / "models/smollm2/config.json").exists(), reason="models/smollm2 is missing"
)


def found(template: str, end: str = "<|end|>", variables: dict[str, str] | None = None) -> dict[str, Diagnosis]:
    tokenizer = build([], [])
    tokenizer.chat_template, tokenizer.eos_token = template, end
    limits = Limits(20, 10**6, 2**12, 600.0)
    return {one.name: one for one in diagnose(tokenizer, variables or {}, Miniworld(), "seed", limits)}


def states(findings: dict[str, Diagnosis]) -> dict[str, str]:
    return {name: one.state for name, one in findings.items()}


def test_embedded_template_is_sound_and_knows_its_tools() -> None:
    findings = found(TEMPLATE)
    assert set(states(findings).values()) == {WORKS}
    assert list(findings) == ["tools", "calls", "prefix", "thoughts", "stop", "mask"]
    assert "31 tools take 0 of the" in findings["tools"].text and "does not show them" in findings["tools"].text
    assert "<|end|> ends each of the" in findings["stop"].text
    assert "has no {% generation %}" in findings["mask"].text


def test_tools_are_counted_in_tokens() -> None:
    text = found(TOOLS + TEMPLATE)["tools"].text
    taken, whole = (int(word) for word in text.split() if word.isdigit() and word != "31")
    assert 0 < taken < whole and "does not show" not in text


def test_template_that_strips_earlier_thoughts_changes_only_thoughts() -> None:
    stripped = "{{ message['content'].split('</think>')[-1] if not loop.last else message['content'] }}"
    findings = found(TEMPLATE.replace("{{ message['content'] or '' }}", stripped))
    assert states(findings) == {name: BROKEN if name == "thoughts" else WORKS for name in findings}
    assert "changes earlier turns when later ones follow with the agent's thoughts" in findings["thoughts"].text
    assert "<think>" in findings["thoughts"].text.partition("instead of")[2]


def test_template_that_marks_the_last_turn_is_not_prefix_preserving() -> None:
    marked = TEMPLATE.replace("<|{{ message['role'] }}|>", "{{ '* ' if loop.last }}<|{{ message['role'] }}|>")
    assert found(marked)["prefix"].state == BROKEN


def test_end_token_that_opens_the_next_turn_is_reported() -> None:
    opening = "{% if not loop.first %}<|end|>{% endif %}"
    template = (
        f"{{% for message in messages %}}{opening}{TURN}{{% endfor %}}{TOOLS}"
        "{% if add_generation_prompt %}<|end|><|assistant|>{% endif %}"
    )
    findings = found(template.replace(TOOLS, "{# tools #}"))
    assert findings["prefix"].state == WORKS and findings["stop"].state == ABSENT
    assert "<|end|> opens the next turn" in findings["stop"].text


def test_role_marker_that_ends_a_reply_breaks_training() -> None:
    template = f"{{# tools #}}{{% for message in messages %}}{TURN}{{% endfor %}}{OPEN_REPLY}"
    findings = found(template)
    assert findings["stop"].state == BROKEN and findings["prefix"].state == BROKEN
    assert "the template writes '<|user|>" in findings["stop"].text and "eos_token" in findings["stop"].remedy


def test_unknown_end_token_is_outside_the_mask() -> None:
    assert found(TEMPLATE, end="<|pad|>")["stop"].state == BROKEN


def test_template_with_generation_marks_has_no_note() -> None:
    marked = TEMPLATE.replace(
        "{{ message['content'] or '' }}", "{% generation %}{{ message['content'] }}{% endgeneration %}"
    )
    finding = found(marked)["mask"]
    assert finding.state == WORKS and "generation" not in finding.text


def test_template_that_writes_no_calls_or_refuses_answers_has_a_line() -> None:
    plain = f"{{% for message in messages %}}{TURN}<|end|>{{% endfor %}}{TOOLS}{OPEN_REPLY}"
    assert found(plain)["calls"].text == "the template writes no calls"
    refusing = plain.replace(TURN, "{{ raise_exception('no tools, please') if message['role'] == 'tool' }}" + TURN)
    finding = found(refusing)["template"]
    assert finding.state == BROKEN and finding.text.endswith("refuses a conversation: no tools, please")
    assert "chat_template.jinja" in finding.remedy


def test_date_in_a_template_has_a_line_and_a_fix() -> None:
    dated = "{{ strftime_now('%d %b %Y %H:%M') }}" + TEMPLATE
    finding = found(dated)["date"]
    assert finding.state == ABSENT and "today's date" in finding.text and "date_string: 26 Jul 2024" in finding.remedy
    assert found(dated, variables={"date_string": "26 Jul 2024"})["date"].state == WORKS


def test_template_file_is_checked_without_a_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("{# tools #}" + TEMPLATE.replace(OWN, "").replace("<|end|>", "</s>"))
    done = coevolve("doctor", "--template", str(file), cwd=ROOT)
    assert done.returncode == 0 and "</s> ends each of the" in done.stdout, done.stdout + done.stderr
    file.write_text("{% for tools in %}")
    done = coevolve("doctor", "--template", str(file), cwd=ROOT)
    assert done.returncode == 1 and "Expected an expression" in done.stdout and "Traceback" not in done.stderr
    done = coevolve("doctor", "--template", str(tmp_path / "absent.jinja"), cwd=ROOT)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "no such" in done.stderr


def test_end_of_a_call_must_be_an_end_token_of_the_model(tmp_path: Path) -> None:
    """vllm#45591: without <|tool_response> in generation_config.json Gemma 4 never stops after a call."""
    words = family("gemma4")
    words.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gemma3_text"}')
    for known, state in (([words.eos_token_id], BROKEN), (words.convert_tokens_to_ids(["<|tool_response>"]), WORKS)):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": known}))
        findings = diagnose(load_tokenizer(str(tmp_path)), {}, Miniworld(), "seed", LIMITS)
        finding = next(one for one in findings if one.name == "stop")
        assert finding.state == state, finding
        assert state == WORKS or (
            "<|tool_response> ends a reply" in finding.text and "generation_config" in finding.remedy
        )


@needs_smollm2
def test_smollm2_template_is_sound() -> None:
    done = coevolve("doctor", "--template", "models/smollm2", cwd=ROOT)
    assert done.returncode == 0 and done.stdout.count(" ok ") == 6, done.stdout + done.stderr
    assert "<|im_end|> ends each of the" in done.stdout


def test_missing_model_or_template_is_a_one_line_error(tmp_path: Path) -> None:
    tokenizer = build([], [])
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "plain")
    (tmp_path / "empty").mkdir()
    for name, text in {
        "absent": "no such directory, and not in the local cache",
        "empty": "no tokenizer in",
        "plain": "the tokenizer needs a chat template and an end token",
    }.items():
        done = coevolve("doctor", "--template", str(tmp_path / name), cwd=ROOT)
        assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("error: --template") and text in done.stderr

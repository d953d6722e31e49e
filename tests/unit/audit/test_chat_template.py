"""The doctor reports which chat templates training would get wrong."""

from pathlib import Path

import pytest

from coevolve.audit.chat_template import diagnose
from coevolve.core.diagnosis import ABSENT, BROKEN, WORKS, Diagnosis
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.rollout import Limits
from coevolve.stages.base.tokenizer import TEMPLATE, build
from tests import ROOT
from tests.cli import coevolve

TOOLS = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
TURN = "<|{{ message['role'] }}|>{{ message['content'] }}"
OPEN_REPLY = "{% if add_generation_prompt %}<|assistant|>{% endif %}"

needs_smollm2 = pytest.mark.skipif(
    not (ROOT / "models/smollm2/config.json").exists(), reason="models/smollm2 is missing"
)


def found(template: str, end: str = "<|end|>") -> dict[str, Diagnosis]:
    tokenizer = build([], [])
    tokenizer.chat_template, tokenizer.eos_token = template, end
    limits = Limits(20, 10**6, 2**12, 600.0)
    return {one.name: one for one in diagnose(tokenizer, {}, Miniworld(), "seed", limits)}


def states(findings: dict[str, Diagnosis]) -> dict[str, str]:
    return {name: one.state for name, one in findings.items()}


def test_embedded_template_is_sound_and_knows_its_tools() -> None:
    findings = found(TEMPLATE)
    assert set(states(findings).values()) == {WORKS}
    assert list(findings) == ["tools", "prefix", "thoughts", "stop", "mask"]
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
    assert states(findings) == {"tools": WORKS, "prefix": WORKS, "thoughts": BROKEN, "stop": WORKS, "mask": WORKS}
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


@needs_smollm2
def test_smollm2_template_is_sound() -> None:
    done = coevolve("doctor", "--template", "models/smollm2", cwd=ROOT)
    assert done.returncode == 0 and done.stdout.count(" ok ") == 5, done.stdout + done.stderr
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

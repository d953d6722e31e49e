"""A card shows untrusted text, and none of it acts as YAML, Markdown or HTML."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from coevolve.audit.subject import Audit, Finding
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.core.untrusted import markdown
from coevolve.lineage.cards import episode_card, task_card
from tests.unit.environments.quiz import Quiz

PAYLOADS = [
    "a | b | c",
    "x\n---\nlicense: mit\n---\n# other",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "\x1b]0;pwn\x07\u202e",
    "x" * 10**6,
]


def named(text: str) -> Quiz:
    quiz = Quiz()
    quiz.name = quiz.fingerprint = quiz.license = text
    return quiz


def card(text: str, folder: Path) -> str:
    task = Task.create("quiz", "seed", [text], {}, [[ToolCall("answer")]], [text])
    return task_card([task], named(text), "run", folder / "no.json")


def card_of_episodes(text: str, folder: Path) -> str:
    call = {"type": "function", "function": {"name": text, "arguments": {text: text}}}
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": text, "tool_calls": [call]}]
    row = {"messages": messages, "tools": [], "task_id": text, "kind": text}
    return episode_card("episodes", "They are the agent's.", [row], named(text), "run", folder / "no.json")


@pytest.mark.parametrize("card", [card, card_of_episodes])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_in_a_card_is_escaped(tmp_path: Path, payload: str, card: Callable[[str, Path], str]) -> None:
    text, plain = card(payload, tmp_path), card("plain", tmp_path)
    head, body = text.removeprefix("---\n").split("---\n", 1)
    assert yaml.safe_load(head) == {**yaml.safe_load(card("other", tmp_path).removeprefix("---\n").split("---\n")[0])}
    assert text.count("\n") == plain.count("\n") and len(text) < len(plain) + 2000
    shown = body.replace("\\<", "").replace("\\[", "").replace("\\&", "")
    assert "<script" not in shown and "<img" not in shown and "[click]" not in shown and "&lt;" not in shown
    assert all(character.isprintable() or character == "\n" for character in text)
    for line in body.splitlines():
        if line.startswith("| "):
            assert line.replace("\\\\", "").replace("\\|", "").count("|") == 3, line


@pytest.mark.parametrize("licence", ["no", "1.0", "null", "MIT", "CC-BY-4.0"])
def test_licence_is_a_yaml_string(tmp_path: Path, licence: str) -> None:
    head = card(licence, tmp_path).removeprefix("---\n").split("---\n")[0]
    assert yaml.safe_load(head)["license"] == licence.lower()


@given(st.text())
def test_every_markdown_mark_is_escaped(text: str) -> None:
    left = markdown(text).replace("\\\\", "")
    for mark in "`|<>[]&":
        left = left.replace(f"\\{mark}", "")
    assert not set(left) & set("\\`|<>[]&\n")


@pytest.mark.parametrize("damage", [{}, {"findings": 5}, {"findings": [{"check": 1}]}])
def test_damaged_audit_is_a_one_line_error(tmp_path: Path, damage: dict[str, Any]) -> None:
    finding = Finding("a|b", "warn", "<b>?", 3, [], "")
    audit = asdict(Audit("quiz", "quiz-1", [finding]))
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(audit))
    assert "- a\\|b (warn): \\<b\\>? 3 violations" in task_card([], Quiz(), "run", file)
    file.write_text(json.dumps({**audit, **damage} if damage else []))
    with pytest.raises(CoevolveError, match=r"audit\.json: "):
        task_card([], Quiz(), "run", file)

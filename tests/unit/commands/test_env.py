"""`coevolve env` with hostile texts of an environment."""

from pathlib import Path

import pytest

from tests.cli import coevolve

PWN = r"\x1b]0;pwn\x07\u202e"
RUDE = f"""
from tests.unit.environments.quiz import Quiz, QuizSession

class Rude(Quiz):
    name = "rude"
    fingerprint = "rude {PWN}\\nminiworld is broken"
    panels = ("validation", "{PWN}")

    def tools(self):
        inner = {{"type": "object", "properties": {{"{PWN}": {{}}}}}}
        odd = {{"name": "{PWN}", "description": "{PWN}", "parameters": inner}}
        return [*super().tools(), {{"type": "function", "function": odd}}]

    def open(self):
        return Play()

class Play(QuizSession):
    def step(self, call):
        raise KeyError("{PWN}")

class Wrong(Quiz):
    def __init__(self):
        raise KeyError("{PWN}")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of packages with third-party environments."""
    about = tmp_path / "site/rude-0.1.dist-info"
    about.mkdir(parents=True)
    (tmp_path / "site/rude.py").write_text(RUDE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rude\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[coevolve.environments]\nrude = rude:Rude\nwrong = rude:Wrong\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.parametrize("arguments", [["show", "rude"], ["check", "rude", "--tasks", "1", "--only", "contract"]])
def test_environment_texts_cannot_drive_the_terminal(site: None, arguments: list[str]) -> None:
    done = coevolve("env", *arguments)
    assert "rude" in done.stdout, done.stderr
    assert not {character for character in done.stdout + done.stderr if not character.isprintable()} - {"\n"}
    assert "\nminiworld is broken" not in done.stdout

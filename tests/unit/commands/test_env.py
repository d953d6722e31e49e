"""``coevolve env`` with environments that speak to the terminal, and with odd arguments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.waiting import PATIENCE

PWN = r"\x1b]0;pwn\x07\u202e"
RUDE = f"""
import os
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

class Gone(Quiz):
    def __init__(self):
        os._exit(7)

class Wrong(Quiz):
    def __init__(self):
        raise KeyError("{PWN}")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with environments of others."""
    about = tmp_path / "site/rude-0.1.dist-info"
    about.mkdir(parents=True)
    (tmp_path / "site/rude.py").write_text(RUDE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rude\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[coevolve.environments]\nrude = rude:Rude\nwrong = rude:Wrong\n")
    return tmp_path / "site"


def env(site: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(map(str, (site, ROOT / "src", ROOT)))
    return subprocess.run(
        [sys.executable, "-c", "from coevolve.cli import main; main()", "env", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=site.parent,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show", "rude"],
        ["doctor", "rude", "--tasks", "1"],
        ["audit", "rude", "--tasks", "1", "--only", "semantic.oracle_max"],
    ],
)
def test_no_text_of_an_environment_drives_the_terminal(site: Path, arguments: list[str]) -> None:
    done = env(site, *arguments)
    assert "rude" in done.stdout, done.stderr
    assert not {character for character in done.stdout + done.stderr if not character.isprintable()} - {"\n"}
    assert "\nminiworld is broken" not in done.stdout


def test_an_environment_that_ends_the_process_leaves_a_report(site: Path) -> None:
    with (site / "rude-0.1.dist-info/entry_points.txt").open("a") as entries:
        entries.write("gone = rude:Gone\n")
    done = env(site, "audit", "gone", "--only", "semantic.oracle_max", "data.same", "data.same", "--out", "audit")
    assert done.returncode == 1 and done.stderr == ""
    read = json.loads((site.parent / "audit/audit.json").read_text())
    assert [finding["check"] for finding in read["findings"]] == ["semantic.oracle_max", "data.same"]
    assert {line for finding in read["findings"] for line in finding["evidence"]} == {
        "the environment ended the process (exit code 7)"
    }
    assert "exit code 7" in (site.parent / "audit/index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["audit", "miniworld", "--tasks", "-5"], "--tasks: '-5' is not a whole number of at least 1"),
        (["audit", "miniworld", "--tasks", "0"], "--tasks: '0' is not a whole number of at least 1"),
        (["audit", "miniworld", "--seconds", "no"], "--seconds: 'no' is not a whole number of at least 1"),
        (["audit", "nowhere"], "environment 'nowhere' is unknown"),
        (["audit", "miniworld", "--only", "data.varied"], "--only: no check data.varied"),
        (["doctor", "miniworld", "--tasks", "-1"], "--tasks: '-1' is not a whole number of at least 1"),
    ],
)
def test_an_odd_argument_is_one_line(site: Path, arguments: list[str], reason: str) -> None:
    done = env(site, *arguments)
    assert done.returncode in (1, 2) and reason in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr

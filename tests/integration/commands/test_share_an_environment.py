"""The commands of docs/your-trainer.md on how others play your tasks, with ten synthesized tasks: the output is the page's."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.audit.audit import audit, write
from coevolve.environments.hosted import cache, installed
from tests import ROOT
from tests.integration.environments.test_served_tasks import GROWN
from tests.waiting import PATIENCE, free_port

PAGE = (ROOT / "docs/your-trainer.md").read_text(encoding="utf-8").partition("\n## Others play your tasks\n")[2]
OUTPUT = r"\n\n<!-- output -->\n```\n(.*?)```"
SERVE = re.compile(rf"^ {{4}}coevolve (env serve [^\n]*){OUTPUT}", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(rf"^ {{4}}coevolve (export [^\n]*){OUTPUT}", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COEVOLVE_CACHE", str(cache()))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(GROWN, tmp_path / "accepted.jsonl")
    return tmp_path


def test_every_command_runs_here_or_says_why_not() -> None:
    commands = re.findall(r"^ {4}((?:coevolve|play/bin/\S+) [^\n]*)", PAGE, re.MULTILINE)
    shown = {command for command, _ in (*EXPORT.findall(PAGE), *SERVE.findall(PAGE))}
    assert len(shown) == 3
    assert [one for one in commands if "# not run: " not in one and one.removeprefix("coevolve ") not in shown] == []


def test_exports_print_what_the_page_shows(folder: Path) -> None:
    write(audit("miniworld", 1, ["contract.answers"]), folder / "scratch/audits/miniworld")
    for command, output in EXPORT.findall(PAGE):
        words = [sys.executable, "-m", "coevolve.cli", *command.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout) == (0, output), done.stderr[-2000:]


def test_the_code_prints_what_the_page_shows() -> None:
    [(code, output)] = re.findall(rf"```python\n(.*?)```{OUTPUT}", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == output, done.stderr[-2000:]


@pytest.mark.skipif(not installed("openenv"), reason="run `coevolve env install openenv`")
def test_the_server_prints_what_the_page_shows() -> None:
    [(command, output)] = SERVE.findall(PAGE)
    port = str(free_port())
    words = [sys.executable, "-m", "coevolve.cli", *command.split(), "--port", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout and server.stdout.readline() == output.replace("8000", port)
        finally:
            server.terminate()

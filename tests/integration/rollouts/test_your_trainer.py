"""Every command of docs/your-trainer.md that reads rollouts, on a class for TRL and its rollouts: the output is the page's."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT
from tests.project import warm
from tests.unit.rollouts.garage import ROWS
from tests.unit.rollouts.test_grow_loop import MADE
from tests.unit.rollouts.test_row_tasks import failing, solution, write
from tests.waiting import PATIENCE

PAGE = (ROOT / "docs/your-trainer.md").read_text(encoding="utf-8").partition("\n## Others play your tasks\n")[0]


def steps() -> list[tuple[str, str]]:
    """The commands that can run here, each with the output on the page."""
    found = re.findall(
        r"^ {4}(coevolve [^\n]*)(?:\n\n<!-- output -->\n```\n([^`]*(?:`[^`\n]+`[^`]*)*)```)?", PAGE, re.MULTILINE
    )
    return [(command.strip(), output) for command, output in found if "# not run: " not in command]


def test_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PATH", str(warm()), prepend=os.pathsep)
    tries = [solution, failing, solution, failing]
    write(tmp_path / "outputs/completions", ROWS, lambda number: [failing] * 4 if number == 3 else tries)
    (tmp_path / "outputs/completions/train.jsonl").rename(tmp_path / "train.jsonl")
    shutil.copy(MADE.parent / "garage.py", tmp_path / "train.py")
    assert [bool(output) for _, output in steps()] == [True, True]
    for command, output in steps():
        done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{command}\n{done.stderr[-3000:]}"
        assert not output or done.stdout == output

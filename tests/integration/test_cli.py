"""Commands that need a process, a policy or an audit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.cli import COMMANDS
from coevolve.environments.registry import make
from tests.cli import coevolve
from tests.waiting import PATIENCE


@pytest.mark.parametrize("shown", [["profile", "show", "laptop"], ["env", "show", "miniworld"]])
def test_closed_stdout_gives_no_error(shown: list[str]) -> None:
    """As with ``| head``: the reader closes before the first line, or while all lines are on their way."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from coevolve.cli import main; main()", *shown]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_cheap_commands_do_not_load_heavy_packages() -> None:
    code = (
        "import sys, coevolve.cli\n"
        f"for name in {list(COMMANDS)}: coevolve.cli.module(name)\n"
        "print([m for m in ('torch', 'mlflow', 'great_expectations', 'trl', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_check_prints_findings_and_exits_by_severity(tmp_path: Path) -> None:
    arguments = ["env", "check", "miniworld", "--tasks", "2", "--only", "semantic.oracle_max", "data.coverage"]
    done = coevolve(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"semantic.oracle_max +ok", done.stdout) and re.search(r"data.coverage +ADVISORY", done.stdout)
    assert coevolve(*arguments, "--fail-on", "advisory", cwd=tmp_path).returncode == 1


def test_env_shows_environments() -> None:
    shown = coevolve("env", "show", "miniworld").stdout
    assert "find_contact(name: string, [city: string])" in shown and "tables()" in coevolve("env", "show", "sql").stdout
    assert f"tasks, such as: {make('miniworld').tasks('seed')[0].turns[0]}\n" in shown and shown.count("such as") == 1

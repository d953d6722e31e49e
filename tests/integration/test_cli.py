"""Commands that need a process or an audit, and the packages that commands and `import coevolve` load."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import coevolve as api
from coevolve.cli import COMMANDS
from coevolve.environments.registry import make
from tests.cli import coevolve
from tests.unit.commands.test_env import site  # noqa: F401  (a fixture)
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


def test_environment_texts_cannot_drive_the_terminal(site: None) -> None:  # noqa: F811
    done = coevolve("env", "list")
    assert "rude" in done.stdout and "miniworld    miniworld-1" in done.stdout, done.stderr
    assert not {character for character in done.stdout + done.stderr if not character.isprintable()} - {"\n"}
    assert "\nminiworld is broken" not in done.stdout


def test_import_is_cheap_and_every_name_exists() -> None:
    heavy = "('torch', 'pydantic', 'duckdb', 'numpy')"
    code = f"import sys, coevolve\nprint([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert all(getattr(api, name).__doc__ for name in api.__all__) and set(api.__all__) <= {*dir(api)}
    with pytest.raises(AttributeError, match="'coevolve' has no attribute 'signal'"):
        api.signal  # type: ignore[attr-defined]  # noqa: B018

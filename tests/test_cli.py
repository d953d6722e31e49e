import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.cli import COMMANDS


def coevolve(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from coevolve.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_teaches(command: list[str]) -> None:
    done = coevolve(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: coevolve" in done.stdout


def test_a_missing_file_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    done = coevolve("summary", "nowhere.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nowhere.json: no such file")
    assert done.stderr.count("\n") == 1


def test_cheap_commands_do_not_load_heavy_packages() -> None:
    code = (
        "import sys, coevolve.cli\n"
        f"for name in {list(COMMANDS)}: __import__(f'coevolve.commands.{{name}}')\n"
        "print([m for m in ('torch', 'mlflow', 'great_expectations', 'trl', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

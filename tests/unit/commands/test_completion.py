"""`coevolve completion`: bash completes commands, flags, values and files, as a user sees it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from coevolve.cli import COMMANDS, main

# what bash does on Tab: call the function of `complete -F`, with the words so far
TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_shtab_coevolve
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str, file: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    with pytest.raises(SystemExit) as done:
        main(["completion", shell])
    assert not done.value.code
    file.write_text(capsys.readouterr().out)
    return file


def test_bash_completes_as_one_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("bash", tmp_path / "completion.bash", capsys)
    (tmp_path / "candidates.jsonl").touch()

    def tab(*words: str) -> set[str]:
        command = ["bash", "--norc", "-c", TAB, "bash", str(file), "coevolve", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stderr == ""
        return set(done.stdout.split())

    assert tab("") >= set(COMMANDS)
    assert tab("com") == {"compare", "completion"}
    assert tab("export", "") == {"sft", "pairs", "tasks", "environment", "policy", "schemas"}
    assert tab("export", "sft", "--su") == {"--successes"}
    assert tab("env", "au") == {"audit"}
    assert tab("verify", "--candidates", "cand") == {"candidates.jsonl"}


def test_zsh_gets_every_command_with_its_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("zsh", tmp_path / "_coevolve", capsys)
    text = file.read_text()
    assert text.startswith("#compdef coevolve\n")
    assert all(f"{name}:" in text for name in COMMANDS)
    if zsh := shutil.which("zsh"):
        subprocess.run([zsh, "-n", str(file)], check=True)

"""Run git, DVC and Python as programs, and report a failure in the program's own words."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from coevolve.core.errors import CoevolveError

MARKS = (
    "ERROR: ",
    "fatal: ",
    "error: ",
)  # the first line that begins so says what is wrong; DVC prints a footer after it
# words of a failure → what to do about it
REMEDIES = {
    "getpwuid": "this user has no name here: set USER, for example `export USER=me`",
    "is git-ignored": "correct the .gitignore that names it",
    "Unable to acquire lock": "another DVC command works in this folder: wait for it",
    "attempted relative import": "import the files beside it by their plain names",
    "No space left": "make room",
    "exit code -9": "the system ended the process, mostly for lack of memory: end other programs, or raise the limit",
    "exit code -11": "a library crashed, mostly for lack of memory: end other programs, or raise the limit (`ulimit -v`)",
}


def run(
    command: Sequence[str], name: str, folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> str:
    """What ``command`` prints, run in ``folder`` with more environment ``variables``.

    A failure is a CoevolveError: the command's ``name`` (none if empty), its reason and the remedy.
    """
    with TemporaryFile() as out, TemporaryFile() as said:  # a program left in the background would hold a pipe open
        try:
            subprocess.run(
                command, cwd=folder, env={**os.environ, **(variables or {})}, stdout=out, stderr=said, check=True
            )
        except FileNotFoundError as error:
            raise CoevolveError(f"{name} does not start: {error.filename} is missing") from None
        except subprocess.CalledProcessError as error:
            text = _text(said) or _text(out) or f"exit code {error.returncode}"
            raise CoevolveError(f"{name}: {reason(text)}".removeprefix(": ")) from None
        return _text(out)


def dvc(*words: str, folder: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
    return run([sys.executable, "-m", "dvc", *words], f"dvc {words[0]}", folder, variables)


def git(*words: str, folder: Path | None = None) -> str:
    """What git prints; nothing if it fails or is not installed."""
    try:
        return run(["git", *words], "git", folder)
    except CoevolveError:
        return ""


def ignored(names: Sequence[str], folder: Path) -> str:
    """The first of ``names`` in ``folder`` that git ignores, with the line that says so; empty if it ignores none."""
    for line in git("check-ignore", "-v", "--", *names, folder=folder).splitlines():
        rule, _, name = line.partition("\t")
        source, number, pattern = rule.rsplit(":", 2)
        if not pattern.startswith("!"):
            return f"git ignores {name}: line {number} of {source} is {pattern!r}"
    return ""


def reason(text: str) -> str:
    """The line of a failed program's output that says what is wrong, and a remedy if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    otherwise = lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]
    line = next((line for line in lines if line.startswith(MARKS)), otherwise)
    for mark in (*MARKS, "unexpected error - "):
        line = line.removeprefix(mark)
    remedy = next((remedy for words, remedy in REMEDIES.items() if words in line), "")
    return f"{line}; {remedy}" if remedy else line


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace")).strip()

"""The files that decide what an environment does. Standard library only: workers ask it of their environments as well."""

import hashlib
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.imports import PACKAGE, SOURCE, closure


def sources(modules: Iterable[str]) -> dict[str, str]:
    """Path → hash of the files behind ``modules``: of one of ours its file, of another's every file of its package, and
    of either what it imports of ours.
    """
    found: dict[str, str] = {}
    for module in modules:
        for name, file in _files(module):
            found[name] = _hash(file)
            found |= {ours: _hash(SOURCE / ours) for ours in _imported(file)}
    return found


def _files(module: str) -> Iterator[tuple[str, Path]]:
    top = module.partition(".")[0]
    if top == PACKAGE:
        name = f"{module.replace('.', '/')}.py"
        yield name, SOURCE / name
        return
    package = vars(sys.modules[top])
    if folders := package.get("__path__"):
        yield from ((f"{top}/{file}", folder / file) for folder in map(Path, folders) for file in _within(folder))
    elif file := package.get("__file__"):
        yield Path(file).name, Path(file)
    else:
        raise CoevolveError(
            f"environment of module {module}: its files are not found, so no change of them would be seen"
        )


def _within(folder: Path) -> list[Path]:
    """Files below ``folder``, without what Python and editors keep there."""
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if not any(part == "__pycache__" or part.startswith(".") for part in file.parts)]


def _imported(file: Path) -> set[str]:
    if file.suffix != ".py":
        return set()
    try:
        return closure(file)
    except (SyntaxError, ValueError):
        return set()  # a template, or of another Python: it cannot be imported


def _hash(file: Path) -> str:
    """Of all that can matter. Comments cannot; docstrings can, since they may become descriptions of tools."""
    content = file.read_bytes()
    if file.suffix == ".py":
        with suppress(SyntaxError, ValueError, tokenize.TokenError):  # as above
            content = _without_comments(file).encode()
    return hashlib.sha256(content).hexdigest()


def _without_comments(file: Path) -> str:
    with tokenize.open(file) as stream:
        text = stream.read()
    lines, emptied = text.split("\n"), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start[0] - 1, token.start[1]
            lines[row] = lines[row][:column].rstrip()
            if not lines[row]:
                emptied.add(row)
    return "\n".join(line for row, line in enumerate(lines) if row not in emptied)

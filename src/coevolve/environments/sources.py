"""The files behind environments, and behind what other packages add. Standard library only: workers ask it of their environments as well."""

import sys
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from pathlib import Path

from coevolve.core.code_digest import PACKAGE, SOURCE, closure, code_hash
from coevolve.core.errors import CoevolveError
from coevolve.core.mixtures import shares
from coevolve.core.plugins import plugins

GROUP = "coevolve.environments"  # the entry point group by which other packages add environments


def sources(modules: Iterable[str]) -> dict[str, str]:
    """Path → hash of the files behind ``modules``: of one of ours its file, of another's every file of its package, and
    of either what it imports of ours.
    """
    found: dict[str, str] = {}
    for module in modules:
        for name, file in _files(module):
            found[name] = code_hash(file)
            found |= {ours: code_hash(SOURCE / ours) for ours in _imported(file)}
    return found


def environment_code(name: str) -> dict[str, str]:
    """Path → hash of our own environments' files, and of the packages that bring the environments of ``name`` from elsewhere."""
    folder = SOURCE / PACKAGE / "environments"
    found = {f"{PACKAGE}/environments/{file}": code_hash(folder / file) for file in sorted(_within(folder))}
    return found | added_code(GROUP, shares(name))


def added_code(group: str, names: Collection[str]) -> dict[str, str]:
    """Path → hash of the packages that add ``names`` to the entry point ``group``."""
    found: dict[str, str] = {}
    for name, point in plugins(group).items():
        if name in names:
            import_module(point.module)
            found |= sources([point.module])
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
        raise CoevolveError(f"module {module}: its files are not found, so no change of them would be seen")


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

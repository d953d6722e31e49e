"""The source files of environments and of other packages' additions. Standard library only, because workers use it too."""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from coevolve.core.code_closure import PACKAGE, PREFIXES, SOURCE, closure, code_hash
from coevolve.core.errors import CoevolveError
from coevolve.core.plugins import Registry, declared_files, is_file, plugins

GROUP = "coevolve.environments"  # the entry point group by which other packages add environments


def sources(modules: Iterable[str]) -> dict[str, str]:
    """Path → hash of the files behind ``modules``: for a module of ours its file, for another module all files of its package,
    and for both the modules of ours that they import.
    """
    found: dict[str, str] = {}
    for module in modules:
        for name, file in _files(module):
            found[name] = code_hash(file)
            found |= {ours: code_hash(SOURCE / ours) for ours in _imported(file)}
    return found


def environment_code(name: str) -> dict[str, str]:
    """Path → hash of the files of coevolve's environments, and of the package that adds the environment ``name``."""
    folder = SOURCE / PACKAGE / "environments"
    found = {f"{PACKAGE}/environments/{file}": code_hash(folder / file) for file in sorted(_within(folder))}
    return found | added_code(GROUP, name)


def added_code(group: str, name: str) -> dict[str, str]:
    """Path → hash of the package that adds ``name`` to the entry point ``group``; empty if none does."""
    if (point := plugins(group).get(name)) is None:
        return {}
    import_module(point.module)
    return sources([point.module])


def registered_code(registry: Registry, name: str) -> dict[str, str]:
    """Path → hash of the code that ``name`` adds to ``registry``; empty for a module of coevolve."""
    if not is_file(name):
        return added_code(registry.group, name)
    file = Path(name)
    return {name: code_hash(file), **{ours: code_hash(SOURCE / ours) for ours in _imported(file)}}


def _files(module: str) -> Iterator[tuple[str, Path]]:
    top = module.partition(".")[0]
    if module.startswith(PREFIXES):
        name = f"{module.replace('.', '/')}.py"
        yield name, SOURCE / name
        return
    package = vars(sys.modules[top])
    if folders := package.get("__path__"):
        yield from ((f"{top}/{file}", folder / file) for folder in map(Path, folders) for file in _within(folder))
    elif file := package.get("__file__"):
        folder = Path(file).parent
        yield from ((name, folder / name) for name in (Path(file).name, *declared_files(folder)))
    else:
        raise CoevolveError(f"module {module}: its files cannot be found, so a change of them would go unnoticed")


def _within(folder: Path) -> list[Path]:
    """Files below ``folder``, without temporary files of Python and editors."""
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if not any(part == "__pycache__" or part.startswith(".") for part in file.parts)]


def _imported(file: Path) -> set[str]:
    if file.suffix != ".py":
        return set()
    try:
        return closure(file)
    except (SyntaxError, ValueError):
        return set()  # a template, or code of another Python version: it is not importable

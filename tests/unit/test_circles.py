"""No module imports itself through others. Imports inside functions and imports for type checkers count."""

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx

from coevolve.core.code_closure import PACKAGE, SOURCE

# a circle → the reason why it may stay
ALLOWED: dict[frozenset[str], str] = {
    frozenset({"core.ray_cluster", "core.workers"}): "an engine of `workers` is a cluster, if `compute.engine` says so",
}


def modules() -> dict[str, Path]:
    files = (file for file in (SOURCE / PACKAGE).rglob("*.py") if file.name != "__init__.py")
    return {".".join(file.relative_to(SOURCE).with_suffix("").parts): file for file in files}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_only_listed_modules_import_each_other() -> None:
    files = modules()
    graph = networkx.DiGraph(
        (name, other) for name, file in files.items() for other in imported(file) if other in files
    )
    circles = {
        frozenset(name.removeprefix(f"{PACKAGE}.") for name in group)
        for group in networkx.strongly_connected_components(graph)
        if len(group) > 1
    }
    new = [" <-> ".join(sorted(group)) for group in circles - set(ALLOWED)]
    assert not new, f"circles of imports; move what both sides need to a module below them: {new}"
    assert set(ALLOWED) <= circles, "a circle that is gone leaves the list"

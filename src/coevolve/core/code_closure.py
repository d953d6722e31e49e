"""Find the files of this package that decide a stage's output, and hash each: all modules that its script imports, directly
or indirectly.

Stage `code` writes these hashes to data/code, so a change of code reruns exactly the stages whose outputs it may change.
Imports inside functions count. Imports for type checkers do not, and neither do comments. Standard library only, because
workers compute the closure of their environment.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from coevolve.core.hashing import file_hash

SOURCE = Path(__file__).parents[2]  # the folder that holds our package
PACKAGE = "coevolve"
PACKAGES = (PACKAGE, "coevolve_environments")  # the wheel's packages: the second holds adapters of benchmarks

PREFIXES = tuple(f"{package}." for package in PACKAGES)  # of our modules' names

# These files cannot change a byte of an output. The digest holds the values of parameters, so the modules that declare them
# (`config.py`) are carriers too. data/environment.json identifies the environment that `registry` makes.
DECLARATIONS = "config.py"
CARRIERS = frozenset(
    f"{PACKAGE}/{name}.py"
    for name in (
        "core/ray_cluster",
        "core/code_closure",
        "core/concurrency",
        "core/errors",
        "core/guard",
        "core/launch",
        "core/numeric_options",
        "core/paths",
        "core/pipeline",
        "core/plugins",
        "core/processes",
        "core/programs",
        "core/progress",
        "core/scratch",
        "core/section",
        "core/stage_seconds",
        "core/terminal",
        "core/workers",
        "environments/fingerprint",
        "environments/hosted",
        "environments/registry",
        "environments/sources",
        "stages/code/digest",
        "stages/method",
        "stages/schema",
        "stages/train/progress_bar",
    )
)

Chosen = Mapping[str, Collection[str]]  # file of a table → the entries that a run uses


def closure(start: Path, without: Collection[str] = CARRIERS, chosen: Chosen | None = None) -> set[str]:
    """The files below ``SOURCE`` that ``start`` needs, as paths relative to it: imported modules, and the data files
    (templates, prompts) of packages that these modules name.

    The result omits ``start``, the files of ``without``, and all files that only they import. A table of modules that are
    loaded by name counts as an import of each. In a file of ``chosen``, only the entries named there count.
    """
    modules: set[str] = set()
    left = [start, SOURCE / PACKAGE / "__init__.py"]  # runs before every other module of the package
    while left:
        file = left.pop()
        used = (chosen or {}).get(str(file.relative_to(SOURCE))) if file.is_relative_to(SOURCE) else None
        for name in _needed(file, file.stat().st_mtime_ns, None if used is None else frozenset(used)):
            carries = name in without or (without and name.endswith(f"/{DECLARATIONS}"))
            if name not in modules and not carries:
                modules.add(name)
                if name.endswith(".py"):
                    left.append(SOURCE / name)
    return modules


@cache
def _needed(file: Path, changed: int, used: Collection[str] | None) -> list[str]:
    """The files that ``file`` imports or names itself. Of its tables, only ``used`` entries count.

    ``changed``, the time of the last change, is part of the cache's key.
    """
    return list(_imports(ast.parse(file.read_text(encoding="utf-8")), used))


def _imports(tree: ast.Module, used: Collection[str] | None) -> Iterator[str]:
    for node in _running(tree, used):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            path = f"{name.replace('.', '/')}.py"
            if name.split(".")[0] in PACKAGES and (SOURCE / path).is_file():
                yield path
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(PREFIXES):
            path = node.value.partition(":")[0].replace(".", "/")
            if (SOURCE / f"{path}.py").is_file():
                yield f"{path}.py"
            folder = SOURCE / path
            if folder.is_dir():
                yield from (
                    str(data.relative_to(SOURCE)) for data in sorted(folder.iterdir()) if data.suffix not in ("", ".py")
                )


def _running(tree: ast.AST, used: Collection[str] | None) -> Iterator[ast.AST]:
    """The nodes of ``tree`` that exist at run time: not those under `if TYPE_CHECKING`, and only ``used`` entries of tables."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Dict) and used is not None:
            for key, value in zip(node.keys, node.values, strict=True):
                if not isinstance(key, ast.Constant) or key.value in used:
                    yield value
                    yield from _running(value, used)
            continue
        yield node
        yield from _running(node, used)


def code_of(start: Path, chosen: Chosen | None = None) -> dict[str, str]:
    """Path → hash of the file ``start`` and of all code of this package that it needs."""
    first = str(start.relative_to(SOURCE)) if start.is_relative_to(SOURCE) else start.name
    return {
        first: code_hash(start),
        **{name: code_hash(SOURCE / name) for name in sorted(closure(start, chosen=chosen))},
    }


def code_hash(file: Path) -> str:
    """Hash of ``file`` without its comments. Docstrings count, because they may become descriptions of tools."""
    return _hash(file, file.stat().st_mtime_ns)


@cache
def _hash(file: Path, changed: int) -> str:
    if file.suffix == ".py":
        # a template, or code of another Python version: it is not importable, and its comments count
        with suppress(SyntaxError, ValueError, tokenize.TokenError):
            return hashlib.sha256(_without_comments(file).encode()).hexdigest()[:16]
    return file_hash(file, "sha256")[:16]


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

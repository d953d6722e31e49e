"""Which of our files decide what a script does: those that it imports, directly or not.

`python -m coevolve.core.imports` writes them into the ``deps`` of dvc.yaml, so that a change of code reruns exactly the
stages whose outputs it may shape. Imports that are deferred into a function count as well; those for type checkers do not.
"""

import ast
import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2]  # the folder that holds our package
PACKAGE = "coevolve"
ENVIRONMENTS = f"src/{PACKAGE}/environments"  # a dependency of stage `tasks`, which notes what they are

# They carry what a stage makes and shape none of it. `params` only checks values that DVC itself compares. What
# `registry` makes is an environment, which data/environment.json identifies.
CARRIERS = frozenset(
    f"{PACKAGE}/{name}.py"
    for name in (
        "core/cluster",
        "core/concurrency",
        "core/dvc",
        "core/errors",
        "core/imports",
        "core/launch",
        "core/params",
        "core/paths",
        "core/processes",
        "core/progress",
        "core/scratch",
        "core/stage",
        "core/terminal",
        "core/workers",
        "core/yaml_files",
        "environments/fingerprint",
        "environments/registry",
        "environments/sources",
        "stages/train/progress_bar",
        "tracking/mlflow_sink",
        "tracking/journal",
        "tracking/wandb_sink",
    )
)


def closure(start: Path, source: Path = SOURCE, without: Collection[str] = CARRIERS) -> set[str]:
    """The files below ``source`` that ``start`` needs, as paths relative to it: modules that it imports, and data files of
    the packages that these name (templates, prompts).

    Files of ``without`` are left out, with what only they import; ``start`` itself is left out as well.
    """
    found: set[str] = set()
    left = [start, source / PACKAGE / "__init__.py"]  # which runs before anything else of the package
    while left:
        for name in _needed(left.pop(), source):
            if name not in found and name not in without:
                found.add(name)
                if name.endswith(".py"):
                    left.append(source / name)
    return found


def _needed(file: Path, source: Path) -> Iterator[str]:
    for node in _run(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            path = f"{name.replace('.', '/')}.py"
            if name.split(".")[0] == PACKAGE and (source / path).is_file():
                yield path
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}."):
            path = node.value.replace(".", "/")
            if (source / f"{path}.py").is_file():  # a table of modules, loaded by name
                yield f"{path}.py"
            folder = source / path
            if folder.is_dir():
                yield from (
                    str(data.relative_to(source)) for data in sorted(folder.iterdir()) if data.suffix not in ("", ".py")
                )


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of ``tree`` that are there when it runs: what stands under `if TYPE_CHECKING` is not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _run(node)


def code(script: Path) -> list[str]:
    """What the stage of ``script`` (relative to the repository) depends on in code, in the order of dvc.yaml."""
    root = SOURCE.parent
    needed = sorted(str((SOURCE / name).relative_to(root)) for name in closure(root / script))
    return [str(script), *needed]


def digest(script: Path) -> str:
    """Hash of ``script`` and of all our code that it needs."""
    root = SOURCE.parent
    parts = [[name, hashlib.sha256((root / name).read_bytes()).hexdigest()] for name in code(script.relative_to(root))]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def is_code(dependency: str) -> bool:
    """Whether a dependency in dvc.yaml is one that `code` decides."""
    return dependency.startswith((f"src/{PACKAGE}/", "pipelines/"))


def main() -> None:
    """Write the code that each stage depends on into dvc.yaml."""
    from ruamel.yaml import YAML  # not at hand in workers, which ask for the closure of an environment

    file = SOURCE.parent / "dvc.yaml"
    yaml = YAML()
    yaml.width, yaml.preserve_quotes = 1000, True
    yaml.indent(mapping=2, sequence=4, offset=2)
    pipeline = yaml.load(file.read_text(encoding="utf-8"))
    for stage in pipeline["stages"].values():
        one = stage.get("do", stage)
        script = next(word for word in one["cmd"].split() if word.startswith("pipelines/"))
        wanted = code(Path(script))
        one["deps"][:] = [dep for dep in one["deps"] if not is_code(str(dep)) or str(dep) in (*wanted, ENVIRONMENTS)]
        for place, name in enumerate(wanted):
            if name in one["deps"]:
                one["deps"].remove(name)
            one["deps"].insert(place, name)
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(pipeline, stream)


if __name__ == "__main__":
    main()

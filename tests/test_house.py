"""The house keeps its promises: nothing stale, nothing unread, nothing without its place."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve.core import params
from coevolve.core.imports import CARRIERS, ENVIRONMENTS, SOURCE, closure, code, is_code
from coevolve.core.yaml_files import read_yaml
from tests import ROOT

PIPELINE = read_yaml((ROOT / "dvc.yaml").read_text())["stages"]
SCRIPTS = sorted((ROOT / "pipelines").glob("*.py"))
CARRIED = {"tracking", "compute"}  # sections that shape no output of a stage
TOP = 16  # entries of the package


def stages() -> Iterator[tuple[str, dict[str, Any], Path]]:
    """Name, definition and script of every stage of dvc.yaml."""
    for name, stage in PIPELINE.items():
        one = stage.get("do", stage)
        yield name, one, Path(re.findall(r"pipelines/\w+\.py", one["cmd"])[0])


@pytest.mark.parametrize(("stage", "script"), [(one, script) for _, one, script in stages()], ids=list(PIPELINE))
def test_a_stage_depends_on_the_code_that_it_imports_and_on_no_other(stage: dict[str, Any], script: Path) -> None:
    listed = [one for one in stage["deps"] if is_code(one) and one != ENVIRONMENTS]
    assert listed == code(script), "run `python -m coevolve.core.imports`"


def test_what_is_imported_is_seen() -> None:
    """The modules that scripts load when they start are among those that their source is said to import."""
    program = (
        "import runpy, sys\n"
        "for script in sys.argv[1:]:\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'coevolve']: del sys.modules[name]\n"
        "    runpy.run_path(script, run_name='loaded')\n"
        "    print(script, *[m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'coevolve'])\n"
    )
    command = [sys.executable, "-c", program, *map(str, SCRIPTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(SCRIPTS)
    for line in done.stdout.splitlines():
        script, *files = line.split()
        loaded = {str(Path(file).relative_to(SOURCE)) for file in files if Path(file).name != "__init__.py"}
        assert loaded <= closure(Path(script), without=())


def test_packages_hold_no_logic() -> None:
    """Importing a package runs its __init__.py, which no stage depends on."""
    for file in (SOURCE / "coevolve").rglob("__init__.py"):
        nodes = ast.parse(file.read_text()).body
        assert all(isinstance(node, ast.Expr | ast.Assign) for node in nodes), file


def test_every_carrier_is_there() -> None:
    assert [name for name in CARRIERS if not (SOURCE / name).is_file()] == []


def chains(tree: ast.AST) -> set[str]:
    """What a script reads of ``params``: `section.key`, or a section or key of the top by itself."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found = set()
    for node in ast.walk(tree):
        names: list[str] = []
        part: ast.AST = node
        while isinstance(part, ast.Attribute):
            names.insert(0, part.attr.removesuffix("_"))
            part = part.value
        if names and isinstance(part, ast.Name) and part.id == "params" and id(node) not in inner:
            known = params.Params.model_fields.get(names[0]) or params.Params.model_fields.get(f"{names[0]}_")
            assert known, f"{ast.unparse(node)} reads everything; hand over the sections that are read"
            nested = isinstance(known.annotation, type) and issubclass(known.annotation, params.Section)
            found.add(".".join(names[: 2 if nested else 1]))
    return {name for name in found if "." not in name or name.split(".")[0] not in found}


@pytest.mark.parametrize(("stage", "script"), [(one, script) for _, one, script in stages()], ids=list(PIPELINE))
def test_a_stage_lists_the_params_that_its_script_reads_and_no_others(stage: dict[str, Any], script: Path) -> None:
    read = {name for name in chains(ast.parse((ROOT / script).read_text())) if name.split(".")[0] not in CARRIED}
    assert {name for name in stage["params"] if name not in CARRIED} == read


def test_every_key_has_a_reader(tmp_path: Path) -> None:
    """Without a key's field, the type checker finds the places that read it; a key that nothing reads is none."""
    source = tmp_path / "src"
    subprocess.run(["cp", "-r", str(ROOT / "src"), str(source)], check=True)
    file = source / "coevolve/core/params.py"
    tree = ast.parse(file.read_text())
    sections = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and issubclass(getattr(params, node.name), params.Section)
    }

    def mentions(annotation: ast.AST) -> bool:
        """Whether a field is itself one section, or a list of them."""
        return any(isinstance(node, ast.Name) and node.id in sections for node in ast.walk(annotation))

    keys = []
    for name, node in sections.items():
        left = []
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and not mentions(part.annotation):
                keys.append((name, part.target.id))
            else:
                left.append(part)
        node.body = left or [ast.Pass()]
    file.write_text(ast.unparse(tree))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*command, str(source), str(ROOT / "pipelines")],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(source)},
        capture_output=True,
        text=True,
    )
    readers = set(re.findall(r'"(\w+)" has no attribute "(\w+)"', done.stdout))
    heirs = {
        name: {one for one in sections if issubclass(getattr(params, one), getattr(params, name))} for name in sections
    }
    unread = [f"{name}.{key}" for name, key in keys if not any((heir, key) in readers for heir in heirs[name])]
    assert not unread, f"no code reads these keys of params.yaml: {unread}"


def test_every_section_is_a_stage_a_learner_or_shared() -> None:
    from coevolve.stages.train.learner import LEARNERS

    scripts = {file.stem for file in SCRIPTS}
    shared = {"seed", "environment", "iterations", "policy", "endpoint", "launch", "compute", "tracking"}
    assert set(read_yaml((ROOT / "params.yaml").read_text())) - shared - set(LEARNERS) <= scripts


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.stem)
def test_a_stage_has_a_module_of_its_name(script: Path) -> None:
    place = SOURCE / "coevolve/stages" / script.stem
    assert place.is_dir() or place.with_suffix(".py").is_file()


def test_a_file_name_occurs_once_and_the_top_is_small() -> None:
    package = SOURCE / "coevolve"
    files = [file for file in package.rglob("*.py") if file.parent.name != "commands" and file.name != "__init__.py"]
    assert [name for name, count in Counter(file.name for file in files).items() if count > 1] == []
    assert len([one for one in package.iterdir() if not one.name.startswith("__pycache__")]) <= TOP

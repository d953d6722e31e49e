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

from coevolve.core.code_digest import CARRIERS, PACKAGE, SOURCE, closure
from coevolve.core.pipeline import COMMAND
from coevolve.core.section import Section
from coevolve.core.yaml_files import read_yaml
from coevolve.stages.code.digest import REGISTRIES, digest, names, reads
from coevolve.stages.schema import load, sections
from tests import ROOT

PIPELINE = read_yaml((ROOT / "dvc.yaml").read_text())["stages"]
SCRIPTS = sorted((ROOT / "pipelines").glob("*.py"))
STAGES = SOURCE / PACKAGE / "stages"
TOP = 16  # entries of the package
LINES = 300  # of dvc.yaml
CEILINGS = {"src": 36_500, "tests": 23_000}  # lines of Python; lower one when you can, and raise none
WIDE = 802  # most lines of `src` with over 120 characters
WHOLE = {"scratch_key", "plain"}  # functions that a stage may hand all parameters


def stages() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Name in dvc.yaml, definition and stage of every entry, without `code`."""
    for name, entry in PIPELINE.items():
        stage = entry.get("do", entry)
        command = COMMAND.search(stage["cmd"].replace("${item.t}", "0").replace("${item.next}", "1"))
        if name != "code":
            assert command, f"{name}: the command names no stage"
            yield name, stage, command[1]


@pytest.mark.parametrize(("stage", "name"), [(stage, name) for _, stage, name in stages()], ids=list(PIPELINE)[1:])
def test_a_stage_depends_on_its_digest_and_on_no_file_of_code(stage: dict[str, Any], name: str) -> None:
    code = [dep for dep in stage["deps"] if str(dep).startswith(("data/code", "src", "pipelines"))]
    assert code == [f"data/code/{name}.json"]
    assert "params" not in stage, "parameters are in the digest, with their defaults"


def test_the_pipeline_has_every_stage_and_is_short() -> None:
    assert {name for _, _, name in stages()} == set(names()) == {file.stem for file in SCRIPTS}
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= LINES


@pytest.mark.parametrize("stage", names())
def test_a_stage_hands_on_the_sections_that_it_reads_and_never_all(stage: str) -> None:
    """Otherwise its digest would lack a parameter that it reads."""
    file = STAGES / stage / "stage.py"
    tree = ast.parse(file.read_text())
    local = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        whole = any(isinstance(argument, ast.Name) and argument.id == "params" for argument in call.args)
        if whole and isinstance(call.func, ast.Name):
            assert call.func.id in local | WHOLE, f"{file}:{call.lineno}"
    assert reads(file)


def test_a_digest_follows_what_the_parameters_choose() -> None:
    params = load(ROOT / "params.yaml")
    code = digest("train", params)["code"]
    assert "coevolve/stages/train/grpo_trainer.py" in code
    assert not {"coevolve/stages/train/dpo_trainer.py", "coevolve/stages/train/sft_trainer.py"} & set(code)
    assert "coevolve/stages/train/grpo_trainer.py" not in digest("warm", params)["code"]
    assert "coevolve/stages/explore/endpoint_explorer.py" not in digest("explore", params)["code"]
    assert all((SOURCE / table).is_file() for table in REGISTRIES)


def test_what_is_imported_is_seen() -> None:
    """The modules that stages load when they start are among those that their source is said to import."""
    program = (
        "import importlib, sys\n"
        "for stage in sys.argv[1:]:\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'coevolve']: del sys.modules[name]\n"
        "    importlib.import_module(f'coevolve.stages.{stage}.stage')\n"
        "    print(stage, *[m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'coevolve'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *names()], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(names())
    for line in done.stdout.splitlines():
        stage, *files = line.split()
        start = STAGES / stage / "stage.py"
        loaded = {str(Path(file).relative_to(SOURCE)) for file in files if Path(file).name != "__init__.py"}
        assert loaded - {str(start.relative_to(SOURCE))} <= closure(start, without=())


def test_packages_hold_no_logic() -> None:
    """Importing a package runs its __init__.py, which no stage depends on."""
    api = SOURCE / PACKAGE / "__init__.py"  # the Python API: it loads each name when it is used
    assert closure(api) == set(), "no stage may depend on the API"
    for file in {*(SOURCE / PACKAGE).rglob("__init__.py")} - {api}:
        nodes = ast.parse(file.read_text()).body
        assert all(isinstance(node, ast.Expr | ast.Assign) for node in nodes), file


def test_every_carrier_is_there() -> None:
    assert [name for name in CARRIERS if not (SOURCE / name).is_file()] == []


def declared(tree: ast.Module) -> dict[str, ast.ClassDef]:
    """The sections that a module declares: classes whose fields are keys."""
    bases = {"Section", "LearnerConfig", "Optimizer"}
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and node.name not in ("LearnerConfig", "Params")
        and any(isinstance(base, ast.Name) and base.id in bases for base in node.bases)
    }


def nested(annotation: ast.AST, sections: set[str]) -> bool:
    """Whether a field is itself a section, or a list of them."""
    return any(isinstance(node, ast.Name) and node.id in sections for node in ast.walk(annotation))


def test_every_key_has_a_reader(tmp_path: Path) -> None:
    """Without a key's field, the type checker finds the places that read it; a key that nothing reads is none."""
    source = tmp_path / "src"
    subprocess.run(["cp", "-r", str(ROOT / "src"), str(source)], check=True)
    files = [
        source / "coevolve/core/launch.py",
        source / "coevolve/core/workers.py",
        source / "coevolve/core/pipeline.py",
    ]
    files += sorted(source.rglob("config.py")) + [
        source / f"coevolve/stages/train/{name}.py" for name in ("grpo", "dpo", "sft")
    ]
    trees = {file: ast.parse(file.read_text()) for file in files}
    every = {name for tree in trees.values() for name in declared(tree)}
    protocols = {
        node.name: [member.name for member in node.body if isinstance(member, ast.FunctionDef)]
        for file in source.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases)
    }
    keys = []
    for file, tree in trees.items():
        for name, node in declared(tree).items():
            left: list[ast.stmt] = []
            for part in node.body:
                if (
                    isinstance(part, ast.AnnAssign)
                    and isinstance(part.target, ast.Name)
                    and not nested(part.annotation, every)
                    and "ClassVar" not in ast.unparse(part.annotation)
                ):
                    keys.append((name, part.target.id))
                else:
                    left.append(part)
            node.body = left or [ast.Pass()]
        file.write_text(ast.unparse(tree))
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *config, str(source), str(ROOT / "pipelines")],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(source)},
        capture_output=True,
        text=True,
    )
    readers = set(re.findall(r'"(\w+)" has no attribute "(\w+)"', done.stdout))
    for name, expected in re.findall(r'incompatible type "(\w+)"; expected "(\w+)"', done.stdout):
        readers |= {(name, member) for member in protocols.get(expected, ())}  # a protocol reads its members
    heirs = {"Optimizer": {"Optimizer", "Train"}}
    unread = [
        f"{name}.{key}" for name, key in keys if not any((heir, key) in readers for heir in heirs.get(name, {name}))
    ]
    assert len(keys) > 150 and not unread, f"no code reads these keys of params.yaml: {unread}"


def test_every_section_is_a_stage_a_learner_or_shared() -> None:
    from coevolve.stages.train.learners import LEARNERS

    shared = {"policy", "endpoint", "launch", "compute", "tracking"}
    assert set(sections()) - shared - set(LEARNERS.built_in) <= {*names(), "base"}


def test_every_key_has_a_sentence() -> None:
    def missing(section: type[Section], prefix: str) -> Iterator[str]:
        for name, field in section.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, Section) and "limit" not in inner.model_fields:
                yield from missing(inner, f"{prefix}.{name}")
            elif not (field.description or "").endswith("."):
                yield f"{prefix}.{name}"

    assert [key for name, section in sections().items() for key in missing(section, name)] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.stem)
def test_a_stage_has_a_module_of_its_name(script: Path) -> None:
    assert (STAGES / script.stem / "stage.py").is_file()


SHARED = {"__init__.py", "__main__.py", "config.py", "stage.py"}  # names that every room or stage has


def test_a_file_name_occurs_once_and_the_top_is_small() -> None:
    package = SOURCE / "coevolve"
    files = [file for file in package.rglob("*.py") if file.name not in SHARED]
    assert [name for name, count in Counter(file.name for file in files).items() if count > 1] == []
    assert len([entry for entry in package.iterdir() if entry.name not in ("__pycache__", "py.typed")]) <= TOP


@pytest.mark.parametrize("folder", CEILINGS)
def test_the_house_stays_below_its_ceiling(folder: str) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert len(lines) <= CEILINGS[folder], "a new feature names the code that it deletes"
    assert folder != "src" or sum(len(line) > 120 for line in lines) <= WIDE, "fewer lines, but not by denser lines"


def test_a_public_class_name_occurs_once() -> None:
    classes = Counter(
        node.name
        for file in (SOURCE / "coevolve").rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_core_imports_nothing_of_ours() -> None:
    for file in (SOURCE / "coevolve/core").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.startswith("coevolve"):
                assert module.startswith("coevolve.core"), f"{file}:{node.lineno} imports {module}"

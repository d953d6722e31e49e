"""Rules of the repository: stages, digests, sections, names and imports."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.code_closure import CARRIERS, PACKAGE, SOURCE, closure
from coevolve.core.pipeline import COMMAND
from coevolve.core.section import Section, read_yaml
from coevolve.stages.code.digest import names, reads
from coevolve.stages.schema import sections
from tests import ROOT

PIPELINE = read_yaml((ROOT / "dvc.yaml").read_text())["stages"]
SCRIPTS = sorted((ROOT / "pipelines").glob("*.py"))
STAGES = SOURCE / PACKAGE / "stages"
ADAPTERS = "coevolve_environments"
TOP = 16  # entries of the package
LINES = 300  # of dvc.yaml
WHOLE = {"scratch_key", "plain"}  # functions that a stage may hand all parameters


def stages() -> Iterator[tuple[str, dict[str, Any], str]]:
    """The name in dvc.yaml, the definition and the stage of every entry, without `code`."""
    for name, entry in PIPELINE.items():
        stage = entry.get("do", entry)
        command = COMMAND.search(stage["cmd"].replace("${item.t}", "0").replace("${item.next}", "1"))
        if name != "code":
            assert command, f"{name}: the command names no stage"
            yield name, stage, command[1]


@pytest.mark.parametrize(("stage", "name"), [(stage, name) for _, stage, name in stages()], ids=list(PIPELINE)[1:])
def test_stage_depends_on_its_digest_and_on_no_code_file(stage: dict[str, Any], name: str) -> None:
    code = [dep for dep in stage["deps"] if str(dep).startswith(("data/code", "src", "pipelines"))]
    assert code == [f"data/code/{name}.json"]
    assert "params" not in stage, "parameters are in the digest, with their defaults"


def test_stage_code_runs_after_every_change_of_code() -> None:
    assert {"src", "pipelines"} <= {str(dep) for dep in PIPELINE["code"]["deps"] if isinstance(dep, str)}


def test_pipeline_has_every_stage_and_is_short() -> None:
    assert {name for _, _, name in stages()} == set(names()) == {file.stem for file in SCRIPTS}
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= LINES


@pytest.mark.parametrize("stage", names())
def test_stage_passes_on_the_sections_that_it_reads_and_never_all(stage: str) -> None:
    """Otherwise its digest would lack a parameter that the stage reads."""
    file = STAGES / stage / "stage.py"
    tree = ast.parse(file.read_text())
    local = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        whole = any(isinstance(argument, ast.Name) and argument.id == "params" for argument in call.args)
        if whole and isinstance(call.func, ast.Name):
            assert call.func.id in local | WHOLE, f"{file}:{call.lineno}"
    assert reads(file)


def test_packages_hold_no_logic() -> None:
    """Importing a package runs its __init__.py, and no stage depends on that file."""
    api = SOURCE / PACKAGE / "__init__.py"  # the Python API: it loads each name when it is used
    assert closure(api) == set(), "no stage may depend on the API"
    for file in {*(SOURCE / PACKAGE).rglob("__init__.py")} - {api}:
        nodes = ast.parse(file.read_text()).body
        assert all(isinstance(node, ast.Expr | ast.Assign) for node in nodes), file


def test_every_carrier_exists() -> None:
    assert [name for name in CARRIERS if not (SOURCE / name).is_file()] == []


def test_every_key_has_a_reader() -> None:
    def keys(section: type[Section]) -> Iterator[str]:
        for name, field in section.model_fields.items():
            inner = field.annotation
            yield from keys(inner) if isinstance(inner, type) and issubclass(inner, Section) else [name]

    text = "".join(file.read_text() for file in (SOURCE / PACKAGE).rglob("*.py"))
    found = {key for section in sections().values() for key in keys(section)}
    assert len(found) > 100 and [key for key in found if not re.search(rf"\.{key}\b", text)] == []


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


SHARED = {"__init__.py", "__main__.py", "config.py", "stage.py"}  # names that every room or stage has


def test_file_names_are_unique_and_the_top_level_is_small() -> None:
    package = SOURCE / "coevolve"
    files = [file for file in SOURCE.rglob("*.py") if file.name not in SHARED]
    assert [name for name, count in Counter(file.name for file in files).items() if count > 1] == []
    held = [file.relative_to(package).parts for file in package.rglob("*") if file.is_file()]
    assert len({path[0] for path in held if "__pycache__" not in path} - {"py.typed"}) <= TOP


def test_files_and_functions_can_be_read_at_once() -> None:
    """The limits are those of CONTRIBUTING.md, which has no others."""
    said = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    match = re.search(r"has at most (\d+) entries. A file has at most (\d+) lines, a function at most (\d+)", said)
    assert match
    top, most, longest = map(int, match.groups())
    assert top == TOP
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= most, f"{file}: more than {most} lines; find the second idea in it"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= longest, f"{file}:{node.lineno}: {node.name} has {lines} lines, of at most {longest}"


def test_exploring_and_workers_need_no_words() -> None:
    """So a change of words explores nothing again."""
    for start in ("stages/explore/stage.py", "environments/worker_main.py"):
        assert not [file for file in closure(SOURCE / PACKAGE / start) if file.startswith(f"{PACKAGE}/words/")]


def test_public_class_names_are_unique() -> None:
    classes = Counter(
        node.name
        for file in SOURCE.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_the_core_imports_and_names_no_adapter() -> None:
    """Adapters are found by their entry points, as the environments of other packages are."""
    for file in (SOURCE / PACKAGE).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            module = node.module if isinstance(node, ast.ImportFrom) else None
            named = node.value if isinstance(node, ast.Constant) else None
            for name in (*imported, module, named):
                if isinstance(name, str):
                    assert not name.startswith(f"{ADAPTERS}."), f"{file}:{getattr(node, 'lineno', 1)} names {name}"
                    assert name != ADAPTERS or file.name == "code_closure.py", f"{file} names {name}"


def rooms() -> dict[str, str]:
    """Each package of the table in docs/architecture.md, from top to bottom, and its cell `imports`."""
    rows = re.findall(r"^\| `([\w/.]+)` \| .+ \| (.+) \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    names = ((name if name.startswith((ADAPTERS, "pipelines")) else f"{PACKAGE}/{name}", cell) for name, cell in rows)
    return {name.rstrip("/"): cell for name, cell in names if (SOURCE / name).exists()}


def room(file: Path, known: Iterable[str]) -> str:
    """The row of the table that holds ``file``: the one that names it most precisely."""
    path = file.relative_to(SOURCE)
    return str(max((name for name in known if path.is_relative_to(name)), key=len))


def imports(file: Path) -> Iterator[tuple[int, Path]]:
    """The files of ours that ``file`` imports, each with the line. The API loads its names on first use."""
    for node in ast.walk(ast.parse(file.read_text())):
        named = list[str]()
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        for name in named:
            path = SOURCE / name.replace(".", "/")
            for found in (path.with_suffix(".py"), path / "__init__.py"):
                if found.is_file():
                    yield node.lineno, found


def test_packages_import_only_what_the_table_of_architecture_allows() -> None:
    allowed: dict[str, set[str]] = {}
    order = list(known := rooms())
    for place, (name, cell) in enumerate(known.items()):
        below = set(order[place + 1 :])
        rest = cell.rpartition("every package below")[2]
        listed = {one.rstrip("/") for one in re.findall(r"`([\w/.]+)`", rest)}
        listed = {one if one.startswith(ADAPTERS) else f"{PACKAGE}/{one}" for one in listed}
        assert listed <= below, f"{name}: the table lists {sorted(listed - below)}, which stand above it"
        allowed[name] = below - listed if "every package below" in cell else listed
    assert len(order) > 15
    for file in SOURCE.rglob("*.py"):
        if file == SOURCE / PACKAGE / "__init__.py":
            continue
        here = room(file, order)
        for line, other in imports(file):
            there = room(other, order)
            assert there == here or there in allowed[here], f"{file}:{line}: {here} imports {there}"

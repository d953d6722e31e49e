"""`coevolve export tasks --for verifiers` writes tasks as a verifiers package. A mistake is a one-line error."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from coevolve.audit import checks
from coevolve.audit.subject import Subject, finding, place, write
from coevolve.cli import parser
from coevolve.commands import export
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks, write_jsonl
from coevolve.core.task import Task
from coevolve.environments.registry import make
from tests import ROOT
from tests.integration.trainers.test_served_tasks import GROWN


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tasks = read_tasks(GROWN)
    write_jsonl(tmp_path / "accepted.jsonl", tasks)
    write_jsonl(tmp_path / "sql.jsonl", make("sql").tasks("test")[:1])
    failing = Task.create("miniworld", "seed", tasks[0].turns, tasks[0].world, [tasks[0].calls[:1]])
    write_jsonl(tmp_path / "failing.jsonl", [failing])
    return tmp_path


def run(*words: str, out: str = "new-shop") -> None:
    assert (
        export.run(parser(["export"]).parse_args(["export", "tasks", "--for", "verifiers", *words, "--out", out])) == 0
    )


def check() -> None:
    """Write an audit of one check."""
    world = make("miniworld")
    write(world, [finding(Subject(world, 1, "miniworld"), next(iter(checks.CHECKS)))], place(world))


MINIWORLD = ("--tasks", "accepted.jsonl", "--environment", "miniworld")


def test_package_holds_the_tasks_a_card_and_the_audit(outside: Path) -> None:
    check()
    run(*MINIWORLD)
    folder = outside / "new-shop"
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    package = {"new_shop/__init__.py", "new_shop/tasks.jsonl"}
    assert names == {"README.md", "audit.json", "pyproject.toml"} | package
    assert read_tasks(folder / "new_shop/tasks.jsonl") == read_tasks(GROWN)
    assert json.loads((folder / "audit.json").read_text())["fingerprint"] == make("miniworld").fingerprint
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "new-shop" and {name[:8] for name in project["dependencies"]} == {"coevolve", "verifier"}
    card = (folder / "README.md").read_text()
    assert "# 10 tasks in miniworld" in card and "vf-eval new-shop" in card
    with pytest.raises(CoevolveError, match="new-shop: already exists"):
        run(*MINIWORLD)


def test_export_in_a_project_takes_the_tasks_of_the_last_dataset(outside: Path) -> None:
    shutil.copy(ROOT / "params.yaml", outside)
    for number in (0, 1):
        write_jsonl(outside / f"data/{number}/tasks.jsonl", read_tasks(GROWN)[: 3 - number])
    check()
    run()
    assert read_tasks(outside / "new-shop/new_shop/tasks.jsonl") == read_tasks(GROWN)[:2]
    assert "# 2 tasks in miniworld" in (outside / "new-shop/README.md").read_text()


@pytest.mark.parametrize(
    ("words", "out", "message"),
    [
        (["--tasks", "none.jsonl", "--environment", "sql"], "new", "none.jsonl: no such file"),
        (["--tasks", "sql.jsonl", "--environment", "miniworld"], "new", "belongs to environment 'sql'"),
        (["--tasks", "failing.jsonl", "--environment", "miniworld"], "new", "does not accept 1 of 1 tasks"),
        (["--tasks", "accepted.jsonl"], "new", "params.yaml: no such file"),
        (MINIWORLD, "json", "Python already has a module json"),
        (MINIWORLD, "openenv", "Python already has a module openenv"),
        (MINIWORLD, "2 shops", "verifiers loads the folder by its name"),
    ],
)
def test_mistake_is_a_one_line_error_and_writes_nothing(
    words: list[str], out: str, message: str, outside: Path
) -> None:
    before = set(outside.iterdir())
    with pytest.raises(CoevolveError) as caught:
        run(*words, out=out)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert set(outside.iterdir()) == before


def test_failed_export_leaves_no_folder(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audits = outside / "scratch/audits/miniworld"
    audits.mkdir(parents=True)
    (audits / "audit.json").write_text('{"fingerprint": "' + make("miniworld").fingerprint + '"}')
    with pytest.raises(CoevolveError, match=r"audit\.json"):
        run(*MINIWORLD)
    assert not (outside / "new-shop").exists()

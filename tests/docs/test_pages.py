"""The commands of the documentation, on a small finished run: each one runs here, or tests/docs/untested.toml says why no test runs it.

Pages that tell a story from an empty folder have tests of their own (``STORIES``).
"""

import inspect
import json
import re
import shutil
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.core.io import read_jsonl_objects
from coevolve.environments.registry import make
from tests import ROOT
from tests.pages import PAGES, typed
from tests.project import Project
from tests.unit.rollouts.garage import ROWS, Garage
from tests.unit.rollouts.test_row_tasks import failing, solution, write

STORIES = {"tutorial.md", "your-trainer.md"}  # their tests have these names

# What stands for a word in capitals, and for what the run of this test lacks: it has one iteration
HERE = {
    r"\bNAME\b": "miniworld",
    r"train\.py:MyEnv": "train.py:Garage",
    r"\bMODEL\b": "policies/base",
    r"\bTRAJECTORIES\b|'runs/\*\*/\*\.parquet'": "data/0/trajectories.parquet",
    r"\bROLLOUTS\b": "data/0/trajectories.parquet --count 2",
    r"--tasks FILE\b": "--tasks data/1/tasks.jsonl",
    r"--candidates FILE\b": "--candidates data/0/candidates.jsonl",
    r"--out FILE\b": "--out found.jsonl",
    r"out/accepted\.jsonl": "data/1/tasks.jsonl",
    r"/tmp/verified": "verified",
    r"--environment sql --candidates \S+": "--environment sql --candidates sql.jsonl",
    r"\b(compare) [02] 3\b": r"\1 0 1",
    r"\bpolicies/3\b": "policies/1",
    r"^coevolve env check ((?!stock|.*--tasks).+)": r"coevolve env check \1 --tasks 2",
    r"--tasks 100\b": "--tasks 2",
    r"^coevolve evaluate (.*)": r"coevolve evaluate \1 --tasks 2",
    r"^coevolve env check stock(?= |$)": r"cd stock && \g<0>",
    r"^(.* --out ([\w-]+))$": r"rm -rf \2 && \1",
    r"^coevolve init project\b": r"rm -rf project && \g<0>",
    r"--fail-on warn": "--fail-on fail",
    r"models/smollm2": str(ROOT / "models/smollm2"),
}


def unrun() -> list[str]:
    """The beginnings of the commands that no test runs. `...` stands for any words."""
    tables = tomllib.loads((ROOT / "tests/docs/untested.toml").read_text(encoding="utf-8"))["untested"]
    return [start for table in tables if table["reason"] for start in table["commands"]]


def matches(start: str, command: str) -> bool:
    pattern = ".*".join(map(re.escape, start.split("...")))
    return re.match(pattern + (r"\b" if start[-1].isalnum() else ""), command) is not None


def documented() -> list[str]:
    return sorted({command for page in PAGES if page.name not in STORIES for command in typed(page.read_text())})


def task_id(folder: Path) -> str:
    return str(next(row for _, row in read_jsonl_objects(folder / "data/1/tasks.jsonl"))["task_id"])


def here(command: str, folder: Path) -> str:
    for pattern, words in HERE.items():
        command = re.sub(pattern, words, command)
    return command.replace("TASK_ID", task_id(folder))


@pytest.fixture(scope="module")
def workplace(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of a finished run, with the files that the pages assume."""
    outside = tmp_path_factory.mktemp("pages")
    copied = Project(shutil.copytree(project.folder, outside / "run", symlinks=True))
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
    (copied.folder / "chats.jsonl").write_text(json.dumps({"messages": chat}) + "\n")
    rows = [asdict(task) for task in make("sql").tasks("seed")[:2]]
    (copied.folder / "sql.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rollouts = copied.folder / "outputs/completions"
    write(rollouts, ROWS, lambda number: [solution, failing])
    (rollouts / "train.jsonl").rename(copied.folder / "train.jsonl")
    shutil.copy(inspect.getfile(Garage), copied.folder / "train.py")
    copied.environment["PYTHONPATH"] = str(copied.folder / "src")
    return copied


def test_every_exemption_matches_a_documented_command() -> None:
    commands = [command for page in PAGES for command in typed(page.read_text())]
    assert unrun() and [start for start in unrun() if not any(matches(start, one) for one in commands)] == []


FIRST = ("coevolve env new", "coevolve export tasks", "coevolve import messages")  # others read what they write
LAST = ("coevolve profile apply",)  # it changes the run


def test_every_other_documented_command_runs(workplace: Project) -> None:
    commands = [one for one in documented() if not any(matches(start, one) for start in unrun())]
    commands.sort(key=lambda one: one.startswith(LAST) - one.startswith(FIRST))
    assert len(commands) > 40
    for command in dict.fromkeys(here(one, workplace.folder) for one in commands):
        done = workplace.run("bash", "-c", command, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"

"""A project that is sent to another machine: as committed, and what failed there is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.workers import Local
from coevolve.studies.machines import Texts, bundle, work

STAGE = """\
stages:
  report:
    cmd: '"{python}" stage.py'
    deps: [stage.py]
    params: [number]
    outs: [report/summary.json]
"""
SCRIPT = """\
import os, pathlib
number = int(pathlib.Path("params.yaml").read_text().split(": ")[1])
if number < 0:
    raise SystemExit("number is negative")
pathlib.Path("report").mkdir(exist_ok=True)
pathlib.Path("report/summary.json").write_text(f"{number} by {os.environ['COEVOLVE_PROCESSES']}")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "t")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "t@example.com")
    (tmp_path / "stage.py").write_text(SCRIPT)
    (tmp_path / "params.yaml").write_text("number: 1\n")
    (tmp_path / "dvc.yaml").write_text(STAGE.format(python=sys.executable))
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"], ["git", "add", "-A"]):
        subprocess.run(command, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "project"], check=True)
    return tmp_path


def test_machines_run_the_commit_and_report_the_last_lines_of_failures(project: Path) -> None:
    (project / "params.yaml").write_text("number: 5\n")  # each run is given its own
    found: dict[str, Texts] = {}
    wanted = {name: f"number: {number}\n" for name, number in (("two", 2), ("bad", -1), ("three", 3))}
    failed = work(wanted, Local(2), 7, ["report/*.json", "params.yaml"], found.__setitem__)
    assert found == {
        name: {"report/summary.json": f"{number} by 7", "params.yaml": f"number: {number}\n"}
        for name, number in (("two", 2), ("three", 3))
    }
    assert len(failed) == 1 and failed[0].startswith("bad (") and "number is negative" in failed[0]
    with pytest.raises(FileNotFoundError, match="summary"):
        Texts().read_text("report/summary.json")


def test_uncommitted_code_is_not_sent(project: Path) -> None:
    (project / "stage.py").write_text(SCRIPT.replace("negative", "below zero"))
    with pytest.raises(CoevolveError, match=r"stage\.py is not committed, but other machines run the commit"):
        bundle()

"""Every command of docs/tutorial.md in an empty folder: a new project, a run, a comparison, an environment."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.project import warm
from tests.waiting import PATIENCE

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
NOT_RUN = "# not run: "


def commands() -> list[str]:
    lines = re.findall(r"^ {4}(\S.*)$", PAGE, re.MULTILINE)
    return [line.partition(" # ")[0].strip() for line in lines if NOT_RUN not in line]


def smaller(folder: Path) -> None:
    """Use one iteration of one step instead of three of four. The commands stay those of the page."""
    file = folder / "params.yaml"
    params = yaml.safe_load(file.read_text())
    params["iterations"] = [{"t": 0, "next": 1}]
    params["train"]["steps"] = 1
    params["evaluate"]["tasks"] = 8
    file.write_text(yaml.safe_dump(params, sort_keys=False))


def test_tutorial_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {
        "PATH": f"{warm()}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
        **{f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }.items():
        monkeypatch.setenv(key, value)
    folder, outputs = tmp_path, {}
    assert len(commands()) > 12
    for command in commands():
        if command.startswith("cd "):
            folder = (folder / command.removeprefix("cd ")).resolve()
            continue
        typed = command.replace("policies/3", "policies/1")
        done = subprocess.run(typed, shell=True, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{typed}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        outputs[command] = done.stdout + done.stderr
        if command.startswith("coevolve init first"):
            smaller(folder / "first")
    ran = outputs["dvc repro"]
    assert re.search(r"^train/0$|^train/0, which took", ran, re.MULTILINE), "a stage prints its name"
    assert "policies/1 solves: validation" in ran and "WARNING" not in ran
    (shown,) = (text for command, text in outputs.items() if command.startswith("dvc exp show"))
    assert "success.validation" in shown and "[shorter]" in shown
    assert "coevolve on miniworld" in outputs["coevolve summary"]
    again = subprocess.run("dvc repro", shell=True, cwd=tmp_path / "first", capture_output=True, text=True).stdout
    assert re.findall(r"Running stage '(.*)'", again) == ["code"], "a second run does nothing"
    assert (tmp_path / "second/stock.py").exists()

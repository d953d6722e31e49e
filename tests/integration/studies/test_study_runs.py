"""Runs of a study: parameters read from git."""

import subprocess
from pathlib import Path

import pytest

from studies.study_runs import params


@pytest.mark.parametrize("inner", [".", "project"])
def test_parameters_of_a_commit_are_those_of_the_project(
    inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may be a folder of a repository."""
    folder = tmp_path / inner
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    (folder / "params.yaml").write_text("train: {steps: 20}\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "a"]):
        subprocess.run(["git", *words], cwd=folder if words[0] != "init" else tmp_path, check=True)
    (folder / "params.yaml").write_text("train: {steps: 40}\n")
    assert params("HEAD") == {"train": {"steps": 20}} and params() == {"train": {"steps": 40}}
    assert params("0123abc") == {} and params("") == {}

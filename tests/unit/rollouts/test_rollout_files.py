"""The files of a source: each is read once, folders are read whole, and empty files are skipped."""

import json
import shutil
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.rollouts.rollout_formats import rollout_files
from tests.unit.rollouts.test_real_files import MADE, played


def test_file_with_two_spellings_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(MADE / "verl", tmp_path / "dumps")
    (tmp_path / "link").symlink_to(tmp_path / "dumps")
    monkeypatch.chdir(tmp_path)
    spellings = ["dumps/2.jsonl", "./dumps/../dumps/2.jsonl", tmp_path / "dumps" / "2.jsonl", "link", "dumps"]
    _, files = rollout_files(spellings)
    assert files == [Path("dumps/2.jsonl"), Path("link/1.jsonl")]


def test_glob_that_matches_folders_reads_their_rollouts(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(MADE / "verl", tmp_path / "run" / name)
        (tmp_path / "run" / name / "notes.txt").write_text("no rollouts")
    shutil.copy(MADE / "verl/1.jsonl", tmp_path / "run" / "c.jsonl")
    _, files = rollout_files(str(tmp_path / "run" / "*"))
    names = [file.relative_to(tmp_path / "run").as_posix() for file in files]
    assert names == ["a/1.jsonl", "a/2.jsonl", "b/1.jsonl", "b/2.jsonl", "c.jsonl"]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_first_file_does_not_hide_the_next(tmp_path: Path, content: str) -> None:
    shutil.copytree(MADE / "verl", tmp_path / "dumps")
    (tmp_path / "dumps" / "0.jsonl").write_text(content)
    name, found, account, _ = played(tmp_path / "dumps")
    assert name == "verl" and len(found) == 12 and not account.skipped


def test_first_row_of_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(MADE / "verl", tmp_path / "dumps")
    (tmp_path / "dumps" / "0.jsonl").write_text(json.dumps({"question": 1}))
    with pytest.raises(CoevolveError, match=r"0\.jsonl: its first row is of no known format"):
        rollout_files(tmp_path / "dumps")

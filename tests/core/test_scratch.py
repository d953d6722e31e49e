"""What is made once stays, also when several want it or one is killed."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.core.scratch import once


def test_of_many_who_want_it_one_makes_it(tmp_path: Path) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        threading.Event().wait(0.2)  # the others come meanwhile
        folder.mkdir()
        (folder / "file").write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: once(tmp_path / "a" / "b", make), range(4)))
    assert len(made) == 1 and set(found) == {tmp_path / "a/b"}
    assert (tmp_path / "a/b/file").read_text() == "whole"
    assert once(tmp_path / "a/c", make) == tmp_path / "a/c" and len(made) == 2, "another is another"


def test_what_fails_leaves_nothing_and_is_made_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once(tmp_path / "made", fail)
    assert [one for one in tmp_path.iterdir() if not one.name.endswith(".lock")] == []
    once(tmp_path / "made", Path.mkdir)
    assert (tmp_path / "made").is_dir()

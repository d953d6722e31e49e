"""A shared result is made once, even when several processes want it or one is killed."""

import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.scratch import once, temporary


def test_concurrent_callers_make_a_result_once(tmp_path: Path) -> None:
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


def test_failed_result_leaves_nothing_and_is_made_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once(tmp_path / "made", fail)
    assert [one for one in tmp_path.iterdir() if not one.name.endswith(".lock")] == []
    once(tmp_path / "made", Path.mkdir)
    assert (tmp_path / "made").is_dir()


HOLD = """\
import sys, time
from coevolve.core.scratch import temporary
with temporary("held") as place:
    (place / "left").write_text("?")
    print(place, flush=True)
    time.sleep(600)
"""


def test_next_process_removes_the_temporary_folder_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", HOLD], env=environment, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        theirs = Path(other.stdout.readline().strip())
        with temporary("held") as ours, temporary("held") as more:
            assert len({ours, more, theirs}) == 3 and not any(ours.iterdir())
        assert not ours.exists() and not more.exists() and (theirs / "left").exists()
        other.kill()
    with temporary("held") as next_one:
        assert next_one == theirs and not any(next_one.iterdir())
    assert not theirs.exists()


@pytest.mark.parametrize("made", ["link to a folder", "for everyone", "of another account", "file"])
def test_temporary_folder_that_others_can_fill_is_refused(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    account = os.getuid() + (made == "of another account")
    monkeypatch.setattr(os, "getuid", lambda: account)
    place, theirs, precious = tmp_path / f"coevolve-{account}", tmp_path / "theirs", tmp_path / "precious"
    precious.write_text("mine")
    theirs.mkdir(mode=0o700)
    (theirs / ".sent.lock").symlink_to(precious)
    if made == "file":
        place.touch()
    elif made == "link to a folder":
        place.symlink_to(theirs)
    else:
        theirs.rename(place)
        place.chmod(0o777 if made == "for everyone" else 0o700)
    with pytest.raises(CoevolveError, match="nobody else may write; remove it, or set TMPDIR"), temporary("sent"):
        pass
    assert precious.read_text() == "mine"


def test_temporary_folder_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary("sent") as folder:
        assert folder.parent.stat().st_mode & 0o077 == 0

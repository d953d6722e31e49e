"""The root folder and the experiment that DVC gives this process, and the untracked folder of checkpoints and caches.

Folders in it may be exclusive: they belong to one process at a time.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from coevolve.core.errors import CoevolveError


def dvc_root() -> Path:
    """The repository's folder. A queued experiment runs in a copy, and this is still the original folder."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def experiment_name() -> str:
    """The name of the current DVC experiment; `workspace` outside of experiments."""
    return os.environ.get("DVC_EXP_NAME") or "workspace"


def scratch() -> Path:
    """The untracked folder of checkpoints and caches. It lies under DVC's root, also for queued experiments."""
    return dvc_root() / "scratch"


@contextmanager
def held(lock: Path) -> Iterator[bool]:
    """Try to lock the file ``lock``; yields whether this process holds it. A killed process loses its locks."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """A block that one process at a time runs, by the file ``lock``. A second process waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def claim(folder: Path) -> Iterator[Path]:
    """``folder`` for this process only, or a folder next to it if another process holds ``folder``.

    Queued experiments that train the same policy at the same time must not share checkpoints. A killed process leaves its folder
    unclaimed, and the next process continues with it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for number in count():
        claimed = folder if number == 0 else folder.with_name(f"{folder.name}-{number}")
        with held(claimed.with_name(f".{claimed.name}.lock")) as ours:
            if ours:
                yield claimed
                return


@contextmanager
def alone(lock: Path, reason: str) -> Iterator[None]:
    """A block that one process at a time runs, by the file ``lock``. For a second process it is a CoevolveError of ``reason``."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with held(lock) as ours:
        if not ours:
            raise CoevolveError(reason)
        yield


@contextmanager
def temporary(name: str) -> Iterator[Path]:
    """An empty folder outside the project for this process only, removed at the end.

    The next process that asks for ``name`` removes the folder of a killed process. The folder around it must belong to this
    account, which alone may write there: another account could have put links into it. Otherwise this raises a CoevolveError.
    """
    place = Path(tempfile.gettempdir()) / f"coevolve-{os.getuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise CoevolveError(
            f"{place}: expected a folder of your account where nobody else may write; remove it, or set TMPDIR to another folder"
        )
    with claim(place / name) as claimed:
        shutil.rmtree(claimed, ignore_errors=True)
        claimed.mkdir()
        try:
            yield claimed
        finally:
            shutil.rmtree(claimed, ignore_errors=True)


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """``folder`` (or a file), which ``make`` makes on the first call. It is never left half made.

    A process that asks while another process makes ``folder`` waits for it.
    """
    with in_turn(folder.with_name(f".{folder.name}.lock")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as parent:
                whole = Path(parent) / "whole"
                make(whole)
                os.replace(whole, folder)
    return folder

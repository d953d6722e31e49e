"""The untracked folder of checkpoints and caches, and folders in it that one process works in at a time."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from coevolve.core import dvc


def scratch() -> Path:
    """Untracked folder for checkpoints and caches: under DVC's root, also for queued experiments."""
    return dvc.root() / "scratch"


@contextmanager
def claim(folder: Path) -> Iterator[Path]:
    """``folder`` for this process alone; a folder beside it, where another process works in it.

    Queued experiments that train the same thing at once must not share checkpoints. A process that was killed leaves
    its folder behind, unclaimed, for the next to go on with.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    for number in count():
        place = folder if number == 0 else folder.with_name(f"{folder.name}-{number}")
        with place.with_name(f".{place.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield place
            return


@contextmanager
def temporary(name: str) -> Iterator[Path]:
    """An empty folder outside of the project, for this process alone, which is removed at the end. What a process that was killed has left
    is removed by one that asks for ``name`` after it.
    """
    with claim(Path(tempfile.gettempdir()) / f"coevolve-{os.getuid()}" / name) as place:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """``folder`` (or a file), as ``make`` made it when it was first asked for: whole or not at all.

    Who asks while another process makes it waits, and takes that one's.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as place:
                whole = Path(place) / "whole"
                make(whole)
                os.replace(whole, folder)
    return folder

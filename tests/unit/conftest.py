"""Unit tests start no process, no server and no training. A test that needs one belongs in `tests/integration`."""

import multiprocessing.process
import sys
from collections.abc import Iterator
from typing import Any

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "socket.bind"}
PROBES = ("/sbin/ldconfig", "'uname'", "'::1'")  # a library looks for another library, the processor or IPv6
running: list[str] = []  # the unit test that runs now
started: list[str] = []  # what it started


def refuse(event: str) -> None:
    if running:
        started.append(event)
        raise AssertionError(f"{running[-1]} starts something ({event}); move it to tests/integration")


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and not any(probe in str(arguments[:2]) for probe in PROBES):
        refuse(f"{event} {arguments[:2]}")


sys.addaudithook(watch)
start_process = multiprocessing.process.BaseProcess.start


def start(self: multiprocessing.process.BaseProcess) -> None:
    refuse("multiprocessing")
    start_process(self)


multiprocessing.process.BaseProcess.start = start  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def nothing_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if trainer := sys.modules.get("transformers.trainer"):
        monkeypatch.setattr(trainer.Trainer, "train", lambda *arguments, **options: refuse("a trainer"))
    running.append(request.node.nodeid)
    try:
        yield
    finally:
        running.pop()
        events = started.copy()
        started.clear()
    assert not events, f"{request.node.nodeid} starts something ({events[0]}); move it to tests/integration"

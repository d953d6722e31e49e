"""Waiting for what another process does: however busy the machine is, only what hangs takes as long as ``PATIENCE``."""

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PATIENCE = 900.0  # seconds


def until(reached: Callable[[], object], what: str) -> None:
    """Return once ``reached`` says so; fail with ``what`` is missing if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def stall(processes: Sequence[int], seconds: float) -> None:
    """Stop the processes for so long, as a machine that sleeps does. The first goes on before the others."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    time.sleep(seconds)
    for process in processes:
        os.kill(process, signal.SIGCONT)
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"

"""Wait for another process. On a busy machine a wait may be long, but only a hang takes ``PATIENCE``."""

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PATIENCE = 900.0  # seconds


def until(reached: Callable[[], object], what: str) -> None:
    """Return once ``reached()`` is true. If it never is, fail with the message ``what``."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def stall(processes: Sequence[int], seconds: float) -> None:
    """Stop the processes for some seconds, as a sleeping machine does. The first one resumes before the others."""
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
    """Whether a server listens at this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def alive(pid: int) -> bool:
    """Whether a process runs. A zombie that waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"

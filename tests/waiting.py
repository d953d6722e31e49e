"""Waiting for what another process does: however busy the machine is, only what hangs takes as long as ``PATIENCE``."""

import socket
import time
from collections.abc import Callable

PATIENCE = 900.0  # seconds


def until(reached: Callable[[], object], what: str) -> None:
    """Return once ``reached`` says so; fail with ``what`` is missing if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

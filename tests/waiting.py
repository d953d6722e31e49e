"""Waiting for what another process does: however busy the machine is, only what hangs takes as long as ``PATIENCE``."""

import time
from collections.abc import Callable

PATIENCE = 600.0  # seconds


def until(reached: Callable[[], object], what: str) -> None:
    """Return once ``reached`` says so; fail with ``what`` is missing if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)

"""Threads whose jobs never end."""

import subprocess
import sys

from tests.waiting import PATIENCE


def test_endless_job_does_not_keep_the_process_alive() -> None:
    program = (
        "import threading\n"
        "from coevolve.core.concurrency import Threads\n"
        "future = Threads(1, 'test').take().submit(threading.Event().wait)\n"
        "while not future.running(): pass\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False).returncode == 0

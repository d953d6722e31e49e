"""The process of an environment when its machine stalls and when its parent dies."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import ROOT
from tests.integration.environments.test_worker import NAUGHTY
from tests.waiting import PATIENCE, alive, stall, until

PROGRAM = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
from coevolve.environments.worker import WorkerEnvironment
from coevolve.core.task import ToolCall
world = WorkerEnvironment("miniworld", {place!r}, sys.executable, 1, 4, {seconds})
session = world.open()
session.reset(world.tasks("seed")[0])
print(os.getpid(), world.pool.workers[0].pid, flush=True)
print(session.step(ToolCall({tool!r})).content, flush=True)
if not {tool!r}:
    threading.Event().wait()
"""


def started(tool: str, seconds: float) -> tuple["subprocess.Popen[str]", list[int]]:
    """A process whose environment runs ``tool``, and the numbers of the process and of its worker."""
    code = PROGRAM.format(place=NAUGHTY, tool=tool, seconds=seconds)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    parent = subprocess.Popen([sys.executable, "-c", code], text=True, env=environment, **pipes)
    assert parent.stdout
    numbers = [int(number) for number in parent.stdout.readline().split()]
    time.sleep(0.3)
    return parent, numbers


def test_stalled_machine_breaks_no_session() -> None:
    parent, processes = started("nap", 5.0)
    stall(processes, 6.0)
    assert parent.communicate()[0] == "no such tool\n"  # the answer, after the nap
    assert parent.returncode == 0


@pytest.mark.parametrize(
    ("tool", "death"), [("", signal.SIGINT), ("hang", signal.SIGTERM), ("hang_holding_the_lock", signal.SIGKILL)]
)
def test_worker_does_not_outlive_its_parent(tool: str, death: signal.Signals) -> None:
    if tool == "hang_holding_the_lock" and sys.platform != "linux":
        pytest.skip("only Linux ends a process with its parent's")
    parent, (_, worker) = started(tool, 1000.0)
    parent.send_signal(death)
    parent.wait(timeout=PATIENCE)
    until(lambda: not alive(worker), "the worker outlived its parent")

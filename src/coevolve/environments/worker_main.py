"""The worker's side: an environment in its own process, which answers requests as JSON lines on standard input.

`python -m coevolve.environments.worker_main PARENT PLACE MEMORY`. PLACE is MODULE:CLASS, or =NAME for ``make``. MEMORY is the limit
of its address space in bytes (0: no limit).

Standard library only, except for the environment's imports. The worker always ends with its parent: at the end of its input, or
by the kernel's signal.
"""

import ctypes
import json
import os
import queue
import resource
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.environments import wire
from coevolve.environments.environment import MACHINE, Environment, EnvironmentFailed, NoRoom, Session
from coevolve.environments.registry import make, make_from

PR_SET_PDEATHSIG = 1


class WorkerServer:
    """Answers one request after another. Sessions have numbers."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._sessions: dict[int, Session] = {}
        self._next = 0

    def answer(self, request: dict[str, Any]) -> Any:
        method: Callable[..., Any] = getattr(self, f"do_{request['do']}")
        if "session" in request:
            return method(self._sessions[request["session"]], request)
        return method(request)

    def do_describe(self, request: dict[str, Any]) -> Any:
        one = self._environment
        return {
            "fingerprint": one.fingerprint,
            "panels": list(one.panels),
            "more_splits": list(one.more_splits),
            "tools": list(one.tools()),
            "capacity": one.capacity,
            "quarantine": dict(one.quarantine),
            "phrasebook": asdict(one.phrasebook),
            "goals": list(one.goals),
            "license": one.license,
        }

    def do_tasks(self, request: dict[str, Any]) -> Any:
        return [wire.of_task(task) for task in self._environment.tasks(request["split"])]

    def do_reference(self, request: dict[str, Any]) -> Any:
        calls = self._environment.reference(wire.to_task(request["task"]))
        return [[[call.name, call.arguments] for call in turn] for turn in calls]

    def do_fresh_world(self, request: dict[str, Any]) -> Any:
        return self._environment.fresh_world(wire.to_task(request["task"]), request["seed"])

    def do_construct(self, request: dict[str, Any]) -> Any:
        return wire.of_task(self._environment.construct(request["goal"], request["seed"]))

    def do_category(self, request: dict[str, Any]) -> Any:
        return self._environment.category(wire.to_task(request["task"]))

    def do_scenario(self, request: dict[str, Any]) -> Any:
        return self._environment.scenario(wire.to_task(request["task"]))

    def do_sources(self, request: dict[str, Any]) -> Any:
        return self._environment.sources()

    def do_open(self, request: dict[str, Any]) -> Any:
        self._next += 1
        self._sessions[self._next] = self._environment.open()
        return self._next

    def do_close(self, session: Session, request: dict[str, Any]) -> Any:
        del self._sessions[request["session"]]
        session.close()

    def do_reset(self, session: Session, request: dict[str, Any]) -> Any:
        return wire.of_turn(session.reset(wire.to_task(request["task"])))

    def do_begin_reply(self, session: Session, request: dict[str, Any]) -> Any:
        session.begin_reply()

    def do_step(self, session: Session, request: dict[str, Any]) -> Any:
        return wire.of_turn(session.step(ToolCall(request["name"], request["arguments"])))

    def do_say(self, session: Session, request: dict[str, Any]) -> Any:
        return wire.of_turn(session.say(request["text"]))

    def do_score(self, session: Session, request: dict[str, Any]) -> Any:
        return asdict(session.score())

    def do_digest(self, session: Session, request: dict[str, Any]) -> Any:
        return session.digest()


def _listen(requests: "queue.SimpleQueue[str]") -> None:
    """Forward requests. At the end of the input, end the process, even during a call."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def end_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies: a call that holds the interpreter's lock does not notice the end of input."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _serve(place: str, replies: TextIO) -> None:
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    server: WorkerServer | None = None
    while True:
        line = requests.get()
        try:
            if server is None:
                server = WorkerServer(make(place[1:]) if place.startswith("=") else make_from(place))
            reply = json.dumps({"value": server.answer(json.loads(line))})
        except CoevolveError as error:
            reply = json.dumps({"refused": str(error)})
        except Exception as error:
            reply = json.dumps(_failure(error))
        replies.write(reply + "\n")
        replies.flush()


def _failure(error: Exception) -> dict[str, Any]:
    """``error`` as a reply, from which the other side raises it again."""
    if isinstance(error, OSError) and error.errno in MACHINE:
        return {"machine": [error.errno, str(error)]}
    claim = "full" if isinstance(error, NoRoom) else "environment"
    fault = claim if isinstance(error, EnvironmentFailed) else "failed"
    return {fault: f"{type(error).__name__}: {error}"}


def main() -> None:
    end_with(int(sys.argv[1]))
    if memory := int(sys.argv[3]):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of the environment must not mix with the replies
    sys.stdout = sys.stderr
    _serve(sys.argv[2], replies)


if __name__ == "__main__":
    main()

"""The worker's side: an environment in its own process, which answers requests as JSON lines on standard input.

`python -m coevolve.environments.worker_main PARENT PLACE MEMORY`. PLACE is what ``make`` takes. MEMORY is the limit of its
address space in bytes (0: no limit).

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
from typing import Any, TextIO

from coevolve.core.errors import CoevolveError
from coevolve.environments import wire
from coevolve.environments.environment import MACHINE, Environment, EnvironmentFailed, NoRoom, Session
from coevolve.environments.registry import make

PR_SET_PDEATHSIG = 1


class WorkerServer:
    """Answers one request after another: the name of a method with its arguments, and the number of a session if it is a session's."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._sessions: dict[int, Session] = {}
        self._opened = 0

    def answer(self, do: str, arguments: list[Any], session: int | None = None) -> Any:
        if do == "describe":
            return {name: getattr(self._environment, name) for name in arguments}
        if do == "open":
            self._opened += 1
            self._sessions[self._opened] = self._environment.open()
            return self._opened
        if do == "close" and session is not None:
            return self._sessions.pop(session).close()
        owner = self._environment if session is None else self._sessions[session]
        if do == wire.BEGIN:
            self._sessions[session or 0].begin_reply()
            do = "step"
        return getattr(owner, do)(*(wire.record(one) if isinstance(one, dict) else one for one in arguments))


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
                server = WorkerServer(make(place))
            reply = wire.dumps({"value": server.answer(**json.loads(line))})
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

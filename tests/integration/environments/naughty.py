"""miniworld with tools that misbehave; played in a worker."""

import errno
import os
import re
import time
from contextlib import suppress

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.environments.environment import EnvironmentFailed, NoRoom
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession


class NaughtySession(MiniworldSession):
    def step(self, call: ToolCall) -> Observation:
        if call.name == "crash":
            print("last words")
            os._exit(3)
        if call.name == "nap":
            time.sleep(1.0)
        if call.name == "hang":
            time.sleep(1e6)
        if call.name == "hang_holding_the_lock":
            re.match(r"(a+)+b", "a" * 60)
        if call.name == "print":
            print("noise on standard output")
            os.system("echo more noise")
        if call.name == "raise":
            raise KeyError("a bug of the environment")
        if call.name == "devour":
            bytearray(1 << 33)
        if call.name == "refuse":
            raise CoevolveError("the environment says no")
        if call.name == "no_server":
            raise EnvironmentFailed("the server is gone")
        if call.name == "full":
            raise OSError(errno.ENOSPC, "no space")
        if call.name == "exit":
            raise SystemExit("the environment leaves")
        if call.name == "process":
            return Observation("tool", str(os.getpid()))
        if call.name == "environment":
            return Observation("tool", " ".join(f"{name}={value}" for name, value in os.environ.items()))
        if call.name == "garble":
            for file in range(3, 16):
                with suppress(OSError):
                    os.write(file, b"garbage\n")
        if call.name == "unspeakable":
            return Observation("tool", {"a set": {1}})  # type: ignore[arg-type]
        return super().step(call)


class Naughty(Miniworld):
    def open(self) -> MiniworldSession:
        return NaughtySession()


class CrowdedSession(MiniworldSession):
    def reset(self, task: Task) -> Observation:
        raise NoRoom("all sessions are in use")


class Crowded(Miniworld):
    def open(self) -> MiniworldSession:
        return CrowdedSession()


class Broken(Miniworld):
    def __init__(self) -> None:
        raise RuntimeError("does not even start")

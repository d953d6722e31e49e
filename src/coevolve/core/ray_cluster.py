"""Workers on the machines of a Ray cluster, each an actor. The extra `ray` installs Ray.

Workers get all data in messages, so the machines need no shared file system. Each must have the same code as this machine.
"""

import importlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from coevolve.core import arithmetic
from coevolve.core.code_closure import SOURCE
from coevolve.core.errors import CoevolveError, first_line, install
from coevolve.core.hashing import content_hash, file_hash
from coevolve.core.processes import MEMORY, Holder, WorkerDied, WorkerLate, WorkerLost
from coevolve.core.scratch import temporary
from coevolve.core.workers import Compute, Fingerprint

USAGE = "RAY_USAGE_STATS_ENABLED"  # Ray reports usage unless this is 0
SECONDS = 10.0  # to wait for a cluster
HERE = "here"  # the address of a new cluster on this machine only, which ends with this process


def load() -> Any:
    """The package `ray`, without usage reports."""
    os.environ.setdefault(USAGE, "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise CoevolveError(
            f"compute.engine is ray, and Ray is not installed; run `{install('ray')}`, or set compute.engine to local"
        ) from None


@contextmanager
def cluster(config: Compute, fingerprint: Fingerprint) -> Iterator["RayCluster"]:
    """The cluster at ``config.address``. It connects at its first use."""
    cluster = RayCluster(config, fingerprint)
    try:
        yield cluster
    finally:
        if "_ray" in cluster.__dict__:
            load().shutdown()


class RayCluster:
    """A worker for every ``config.cpus`` of the cluster's CPUs."""

    def __init__(self, config: Compute, fingerprint: Fingerprint) -> None:
        self._config, self._fingerprint = config, fingerprint
        self._sent: dict[Path, Any] = {}

    @cached_property
    def _ray(self) -> Any:
        ray, config = load(), self._config
        address = None if config.address == HERE else config.address
        ended = signal.getsignal(signal.SIGTERM)  # Ray replaces this handler
        try:
            if address not in (None, "auto"):
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), SECONDS).close()  # Ray itself would try for minutes
            ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, ray.exceptions.RayError) as error:
            raise CoevolveError(
                f"compute.address is {config.address}, but no Ray cluster answers there ({first_line(error)}); start "
                f"a cluster with `ray start --head`, or set compute.address to {HERE}"
            ) from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ended)
        return ray

    @cached_property
    def _expected(self) -> dict[str, str]:
        return _alike(self._fingerprint)

    @cached_property
    def count(self) -> int:
        cpus, there = self._config.cpus, int(self._ray.cluster_resources().get("CPU", 0))
        if there < cpus:
            raise CoevolveError(f"compute.cpus is {cpus}, but the Ray cluster has {there} CPUs; lower compute.cpus")
        return there // cpus

    def hire(self, seconds: float | None, make: Callable[..., Any], *arguments: Any) -> "Actor":
        for folder in arguments:
            if isinstance(folder, Path) and folder not in self._sent:  # sent once for all workers
                files = {
                    str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()
                }
                self._sent[folder] = self._ray.put(Folder(files))
        sent = [self._sent[one] if isinstance(one, Path) else one for one in arguments]
        remote = self._ray.remote(num_cpus=self._config.cpus, max_restarts=0, max_task_retries=0)(_Arrived)
        return Actor(
            seconds, partial(remote.remote, arithmetic.pinned(), self._expected, self._fingerprint, make, *sent)
        )


@dataclass
class Folder:
    """A folder in a message: the bytes of each file by name."""

    files: dict[str, bytes]

    def written(self) -> Path:
        """The folder on this machine, until this process ends."""
        folder = _UNTIL_THE_END.enter_context(temporary("sent"))
        for name, content in self.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return folder


_UNTIL_THE_END = ExitStack()


class Actor:
    """A worker on the cluster: see `coevolve.core.processes.Worker`."""

    def __init__(self, seconds: float | None, start: Callable[[], Any]) -> None:
        self._seconds, self._start = seconds, start
        self._actor = start()
        self._died = self._closed = False

    def call(self, method: str, *arguments: Any) -> Any:
        ray = load()
        if self._died and not self._closed:
            self._actor, self._died = self._start(), False
        try:
            result, error = ray.get(self._actor.call.remote(method, arguments), timeout=self._seconds)
        except ray.exceptions.GetTimeoutError:
            ray.kill(self._actor)
            self._died = True
            raise WorkerLate(f"a process of the Ray cluster did not end {method!r} within {self._seconds} s") from None
        except ray.exceptions.RayActorError as died:
            message = str(died)
            if (
                not isinstance(died, ray.exceptions.ActorDiedError)
                or "node has died" in message
                or "node was" in message
            ):
                raise WorkerLost(message) from None
            if "creation task" in message:  # the machine cannot unpickle the arguments
                raise CoevolveError(
                    f"a machine of the Ray cluster cannot start a worker: {message.strip().splitlines()[-1]}"
                ) from None
            self._died = True
            raise WorkerDied(f"a process of the Ray cluster ended in {method!r}; {MEMORY}") from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process, even during a call."""
        self._closed = True
        load().kill(self._actor)


class _Arrived(Holder):
    """A holder on another machine, which must be like the machine that hires it."""

    def __init__(
        self, pinned: bool, expected: dict[str, str], fingerprint: Fingerprint, make: Callable[..., Any], *sent: Any
    ) -> None:
        super().__init__(pinned, _make, (expected, fingerprint, make, sent))


def _make(expected: dict[str, str], fingerprint: Fingerprint, make: Callable[..., Any], sent: tuple[Any, ...]) -> Any:
    actual = _alike(fingerprint)
    for name in expected:
        if actual[name] != expected[name]:
            address = load().util.get_node_ip_address()
            raise CoevolveError(
                f"the machine {address} of the Ray cluster has {name} {actual[name]}, but this machine has {expected[name]}; "
                "install the same there, or remove it from the cluster"
            )
    return make(*(one.written() if isinstance(one, Folder) else one for one in sent))


def _alike(fingerprint: Fingerprint) -> dict[str, str]:
    """All that must be equal on this machine and on those of the cluster."""
    files = {str(file.relative_to(SOURCE)): file_hash(file) for file in sorted(SOURCE.glob("coevolve/**/*.py"))}
    return {"code": content_hash(files), "arithmetic": arithmetic.in_effect().name, **fingerprint()}

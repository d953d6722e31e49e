"""Workers on the machines of a Ray cluster, each an actor. The extra `ray` installs Ray.

Workers get all data in messages, so the machines need no shared file system. Each must have the same code as this machine.
"""

import importlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from coevolve.core import arithmetic
from coevolve.core.code_closure import SOURCE
from coevolve.core.errors import CoevolveError, first_line, install
from coevolve.core.hashing import content_hash, file_hash
from coevolve.core.processes import WorkerDied, WorkerLate, WorkerLost, portable
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
        cluster.close()


def code() -> str:
    """A hash of this machine's code."""
    files = sorted(SOURCE.glob("coevolve/**/*.py"))
    return content_hash({str(file.relative_to(SOURCE)): file_hash(file) for file in files})


class RayCluster:
    """A worker for every ``config.cpus`` of the cluster's CPUs."""

    def __init__(self, config: Compute, fingerprint: Fingerprint) -> None:
        self._config, self._fingerprint = config, fingerprint
        self._folders: dict[Path, Any] = {}

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
        return _merged(self._fingerprint)

    @cached_property
    def count(self) -> int:
        cpus, there = self._config.cpus, int(self._ray.cluster_resources().get("CPU", 0))
        if there < cpus:
            raise CoevolveError(f"compute.cpus is {cpus}, but the Ray cluster has {there} CPUs; lower compute.cpus")
        return there // cpus

    def close(self) -> None:
        if "_ray" in self.__dict__:
            self._ray.shutdown()

    def hire(self, make: Callable[..., Any], *arguments: Any, fingerprint: Fingerprint = dict) -> "Actor":
        sent = [self._folder(argument) if isinstance(argument, Path) else argument for argument in arguments]
        same = {**self._expected, **fingerprint()}
        return Actor(self._ray, self._config.cpus, [self._fingerprint, fingerprint], same, make, sent)

    def _folder(self, path: Path) -> Any:
        """The contents of a folder, sent once for all workers."""
        if path not in self._folders:
            files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
            self._folders[path] = Folder(self._ray.put(files))
        return self._folders[path]


class Folder:
    """A folder in a message: ``files`` refers to the bytes of each file by name."""

    def __init__(self, files: Any) -> None:
        self.files = files


class Actor:
    """A worker on the cluster: see `coevolve.core.workers.Hired`."""

    seconds: float | None = None

    def __init__(
        self,
        ray: Any,
        cpus: int,
        fingerprints: Sequence[Fingerprint],
        expected: Mapping[str, str],
        make: Callable[..., Any],
        arguments: list[Any],
    ) -> None:
        self._ray = ray
        holder = ray.remote(num_cpus=cpus, max_restarts=0, max_task_retries=0)(Holder)
        self._actor = holder.remote(arithmetic.pinned(), list(fingerprints), dict(expected), make, arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        errors = self._ray.exceptions
        try:
            result, error = self._ray.get(self._actor.call.remote(method, arguments), timeout=self.seconds)
        except errors.GetTimeoutError:
            raise WorkerLate(f"a process of the Ray cluster did not end {method!r} within {self.seconds:g} s") from None
        except errors.ActorDiedError as died:
            message = str(died)
            if "node has died" in message or "node was" in message:
                raise WorkerLost(message) from None
            if "creation task" in message:  # the machine cannot unpickle the arguments
                raise CoevolveError(
                    f"a machine of the Ray cluster cannot start a worker: {message.strip().splitlines()[-1]}"
                ) from None
            raise WorkerDied(f"a process of the Ray cluster ended in {method!r}") from None
        except errors.RayActorError as lost:  # the machine is out of reach
            raise WorkerLost(str(lost)) from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process, even during a call."""
        self._ray.kill(self._actor)


class Holder:
    """The process of an actor. It holds the object that ``make(*arguments)`` returns.

    It fails if a fingerprint of its machine differs from ``expected``, those of the machine that hires it. It uses the
    shared arithmetic if the process that hires it is ``pinned``.
    """

    def __init__(
        self,
        pinned: bool,
        fingerprints: Sequence[Fingerprint],
        expected: Mapping[str, str],
        make: Callable[..., Any],
        arguments: list[Any],
    ) -> None:
        self._held: Any = None
        self._failure: Exception | None = None
        self._places = ExitStack()
        try:
            if pinned:
                arithmetic.pin()
            _same(expected, _merged(*fingerprints))
            self._held = make(*map(self._arrived, arguments))
        except Exception as error:
            self._failure = portable(error)

    def call(self, method: str, arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        if self._failure is not None:
            return None, self._failure
        try:
            return getattr(self._held, method)(*arguments), None
        except Exception as error:
            return None, portable(error)

    def _arrived(self, argument: Any) -> Any:
        if not isinstance(argument, Folder):
            return argument
        folder = self._places.enter_context(temporary("sent"))
        for name, content in load().get(argument.files).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return folder


def _merged(*fingerprints: Fingerprint) -> dict[str, str]:
    return {"code": code(), **{name: value for fingerprint in fingerprints for name, value in fingerprint().items()}}


def _same(expected: Mapping[str, str], actual: Mapping[str, str]) -> None:
    for name in expected:
        if actual[name] != expected[name]:
            address = load().util.get_node_ip_address()
            raise CoevolveError(
                f"the machine {address} of the Ray cluster has {name} {actual[name]}, but this machine has {expected[name]}; "
                "install the same there, or remove it from the cluster"
            )

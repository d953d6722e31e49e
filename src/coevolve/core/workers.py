"""An executor whose workers each hold their own object, on this machine or on several.

An *engine* decides where the workers run. Results never depend on how many workers there are or where they run: callers cut
work into pieces that depend on neither, and join the results in order.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import Worker, WorkerLost, available, prepare
from coevolve.core.section import Count, Section

Fingerprint = Callable[[], Mapping[str, str]]  # values by name that must be equal on all machines with workers


class Compute(Section):
    """Section `compute`: the processes that verify, explore and play. It never changes a result. See docs/cluster.md."""

    engine: Literal["local", "ray"] = "local"
    """Processes that do the work: local, those of this machine; ray, those of a Ray cluster (extra `ray`)."""
    address: Annotated[str, Field(pattern=r"^(auto|here|[A-Za-z0-9._\-\[\]:]{1,255}:[0-9]{1,5})$")] = "auto"
    """Address of the cluster: auto, the cluster of this machine; here, a new cluster on this machine; or HOST:PORT."""
    cpus: Count = 1
    """CPUs of the cluster per process."""


class Engine(Protocol):
    """The place where workers run."""

    @property
    def count(self) -> int:
        """The number of workers that can run at the same time."""

    def hire(self, seconds: float | None, make: Callable[..., Any], *arguments: Any) -> Any:
        """A worker that holds the object that ``make(*arguments)`` returns: see `coevolve.core.processes.Worker`.

        An argument that is the path of a folder is sent with the folder's files.
        """


class Local:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count

    def hire(self, seconds: float | None, make: Callable[..., Any], *arguments: Any) -> Worker:
        prepare(make.__module__)
        return Worker(seconds, make, *arguments)


def local() -> Local | None:
    """The engine of this machine's processes; None if this process works alone."""
    return Local(available()) if available() > 1 else None


def engine(config: Compute, fingerprint: Fingerprint = dict) -> AbstractContextManager[Engine | None]:
    """The engine that the section `compute` asks for, or None if this process works alone.

    This process and every worker on another machine compute ``fingerprint``. A difference is a CoevolveError.
    """
    if config.engine == "local":
        return nullcontext(local())
    from coevolve.core.ray_cluster import cluster

    return cluster(config, fingerprint)


class Workers(ThreadPoolExecutor):
    """All workers of ``engine``, each with an equal object. ``submit(action, item)`` and ``map`` run ``action(worker, item)``.

    Each action has a worker for itself, and a thread of this process makes its calls. If the worker's machine is lost,
    another worker repeats the action.
    """

    def __init__(self, engine: Engine, make: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> None:
        super().__init__(engine.count, thread_name_prefix="workers")
        self.members = [self.member(engine.hire(seconds, make, *arguments)) for _ in range(engine.count)]
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for member in self.members:
            self._idle.put(member)
        self._alive = list(self.members)

    def member(self, worker: Any) -> Any:
        """The form in which actions get a ``worker``."""
        return worker

    def submit(self, action: Callable[..., Any], /, *items: Any) -> Future[Any]:  # type: ignore[override]
        return super().submit(self._run, action, *items)

    def _run(self, action: Callable[..., Any], *items: Any) -> Any:
        while True:
            worker = self._idle.get()
            if worker is None:
                self._idle.put(None)  # for the other threads that wait
                raise CoevolveError(
                    "all machines of the cluster are out of reach; run the same command again when some are back"
                )
            idle = worker
            try:
                return action(worker, *items)
            except WorkerLost:
                self._alive.remove(worker)
                idle = None
            finally:
                if idle is not None or not self._alive:
                    self._idle.put(idle)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End all processes, even during a call."""
        super().shutdown(wait=False, cancel_futures=True)
        for member in self.members:
            member.close()

"""Divide work among workers, on this machine or on several. Each worker holds its own object, whose methods are called by name.

An *engine* decides where the workers run. Results never depend on how many workers there are or where they run: callers cut
work into pieces that depend on neither, and join the results in order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Lock
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import Field

from coevolve.core.concurrency import in_order
from coevolve.core.errors import CoevolveError
from coevolve.core.processes import Worker, WorkerDied, WorkerLost, available, prepare
from coevolve.core.section import Count, Section

Member = TypeVar("Member")
Fingerprint = Callable[[], Mapping[str, str]]  # values by name that must be equal on all machines with workers


class Compute(Section):
    """Section `compute`: the processes that verify, explore and play. It never changes a result. See docs/cluster.md."""

    engine: Literal["local", "ray"] = "local"
    """Processes that do the work: local, those of this machine; ray, those of a Ray cluster (extra `ray`)."""
    address: Annotated[str, Field(pattern=r"^(auto|here|[A-Za-z0-9._\-\[\]:]{1,255}:[0-9]{1,5})\z")] = "auto"
    """Address of the cluster: auto, the cluster of this machine; here, a new cluster on this machine; or HOST:PORT."""
    cpus: Count = 1
    """CPUs of the cluster per process."""


class Hired(Protocol):
    """A worker, which holds an object: see `coevolve.core.processes.Worker`."""

    seconds: float | None

    def call(self, method: str, *arguments: Any) -> Any: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """The place where workers run."""

    @property
    def count(self) -> int:
        """The number of workers that can run at the same time."""
        ...

    def hire(self, make: Callable[..., Any], *arguments: Any, fingerprint: Fingerprint = dict) -> Hired:
        """A worker that holds the object that ``make(*arguments)`` returns.

        An argument that is the path of a folder is sent with the folder's files. ``fingerprint`` adds values that must be
        equal on the worker's machine.
        """
        ...


class Local:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count

    def hire(self, make: Callable[..., Any], *arguments: Any, fingerprint: Fingerprint = dict) -> Worker:
        prepare(make.__module__)
        return Worker(make, *arguments)


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


class Free(Generic[Member]):
    """The idle ``members``, for threads that have work."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._queue: SimpleQueue[Member | None] = SimpleQueue()
        self._left, self._lock = 0, Lock()
        for member in members:
            self._left += 1
            self._queue.put(member)

    def take(self) -> Member:
        """Wait for an idle member. Raises CoevolveError if all members are lost."""
        member = self._queue.get()
        if member is None:
            self._queue.put(None)  # for the other threads that wait
            raise CoevolveError(
                "all machines of the cluster are out of reach; run the same command again when some are back"
            )
        return member

    def give(self, member: Member) -> None:
        """Return ``member``, which is idle again."""
        self._queue.put(member)

    def lose(self) -> None:
        """Report that a member that was taken is lost."""
        with self._lock:
            self._left -= 1
            if not self._left:
                self._queue.put(None)


class Workers:
    """All workers of ``engine``, each with an equal object.

    A worker that dies or exceeds ``seconds`` in a call is replaced. A worker whose machine is lost is not replaced: another
    worker repeats its call.
    """

    def __init__(self, engine: Engine, make: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> None:
        self._engine, self._make, self._arguments, self._seconds = engine, make, arguments, seconds
        self.count = engine.count
        self._workers = {number: self._hire() for number in range(engine.count)}
        self._free = Free(self._workers)

    def _hire(self) -> Hired:
        worker = self._engine.hire(self._make, *self._arguments)
        worker.seconds = self._seconds
        return worker

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of a call to the next idle worker. After WorkerDied, the caller may repeat the call."""
        while True:
            number = self._free.take()
            try:
                result = self._workers[number].call(method, *arguments)
            except WorkerLost:
                self._workers.pop(number).close()
                self._free.lose()
                continue
            except WorkerDied:
                self._workers[number].close()
                self._workers[number] = self._hire()
                self._free.give(number)
                raise
            except BaseException:
                self._free.give(number)
                raise
            self._free.give(number)
            return result

    def map(self, action: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """The results of ``action`` for every item, in order. ``action`` makes the calls; as many run at once as workers exist."""
        yield from in_order(action, items, self.count)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

"""Work shared out among workers, on this machine or on several: each holds an object of its own, which is called by the names of its methods.

An *engine* says where they are. How many there are, and where, is never a matter of the results: whoever shares work out cuts it
into pieces that depend on neither, and puts the results together in order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import Field

from coevolve.core.concurrency import in_order
from coevolve.core.errors import CoevolveError
from coevolve.core.processes import Worker, WorkerDied, WorkerLost, available, prepare
from coevolve.core.section import Count, Section

Member = TypeVar("Member")
Fingerprint = Callable[[], Mapping[str, str]]  # what must be the same wherever a worker is, by name


class Compute(Section):
    """Section `compute`: which processes verify, explore and play. It never changes a result. See docs/more-machines.md."""

    engine: Literal["local", "ray"] = "local"
    """Whose processes do the work: local, this machine's; ray, those of a Ray cluster (extra `ray`)."""
    address: Annotated[str, Field(pattern=r"^(auto|here|[A-Za-z0-9._\-\[\]:]{1,255}:[0-9]{1,5})\z")] = "auto"
    """Address of the cluster: auto, the one that this machine is in; here, a new one on this machine; or HOST:PORT."""
    cpus: Count = 1
    """The cluster's CPUs per process."""


class Hired(Protocol):
    """What holds the object; see `coevolve.core.processes.Worker`."""

    def call(self, method: str, *arguments: Any) -> Any: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Where workers are."""

    @property
    def count(self) -> int:
        """How many there are at once."""
        ...

    def hire(self, make: Callable[..., Any], *arguments: Any, fingerprint: Fingerprint = dict) -> Hired:
        """A worker that holds what ``make(*arguments)`` returns. An argument that is the path of a folder goes there with what it holds.

        ``fingerprint`` must be the same there besides.
        """
        ...


class Local:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count

    def hire(self, make: Callable[..., Any], *arguments: Any, fingerprint: Fingerprint = dict) -> Worker:
        prepare(make.__module__)
        return Worker(make, *arguments)


@contextmanager
def _local(config: Compute, fingerprint: Fingerprint) -> Iterator[Engine | None]:
    yield local()


def local() -> Local | None:
    """As many processes as this one may have; None where there is no other."""
    return Local(available()) if available() > 1 else None


def _ray(config: Compute, fingerprint: Fingerprint) -> AbstractContextManager[Engine | None]:
    from coevolve.core.ray_cluster import cluster

    return cluster(config, fingerprint)


ENGINES: dict[str, Callable[[Compute, Fingerprint], AbstractContextManager[Engine | None]]] = {
    "local": _local,
    "ray": _ray,
}


def engine(config: Compute, fingerprint: Fingerprint = dict) -> AbstractContextManager[Engine | None]:
    """The engine that the section `compute` asks for, or None where this process works alone.

    ``fingerprint`` is asked here and by every worker on another machine: one that differs from here is a CoevolveError.
    """
    return ENGINES[config.engine](config, fingerprint)


class Free(Generic[Member]):
    """Those of ``members`` that have no work, for threads that have some."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._queue: SimpleQueue[Member | None] = SimpleQueue()
        self._left, self._lock = 0, Lock()
        for member in members:
            self._left += 1
            self._queue.put(member)

    def take(self) -> Member:
        """One of them, as soon as there is one. CoevolveError: all are lost."""
        member = self._queue.get()
        if member is None:
            self._queue.put(None)  # for whoever else waits
            raise CoevolveError(
                "every machine that worked is out of reach; when some are back, run the same command again"
            )
        return member

    def give(self, member: Member) -> None:
        """It has no work any more."""
        self._queue.put(member)

    def lose(self) -> None:
        """One that was taken does not come back."""
        with self._lock:
            self._left -= 1
            if not self._left:
                self._queue.put(None)


class Workers:
    """As many workers as ``engine`` has, which hold the same.

    A worker that dies is replaced. One whose machine is lost is not: its call is made again by another.
    """

    def __init__(self, engine: Engine, make: Callable[..., Any], *arguments: Any) -> None:
        self._hire: Callable[[], Hired] = partial(engine.hire, make, *arguments)
        self.count = engine.count
        self._workers = {number: self._hire() for number in range(engine.count)}
        self._free = Free(self._workers)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """The result from whichever worker is free next. WorkerDied: the call may be made again, by another one."""
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
        """``action`` of every item, in order, as many at once as there are workers: it makes the calls."""
        yield from in_order(action, items, self.count)

    def all(self, method: str) -> None:
        """Call it once on each, when none has work."""
        for worker in self._workers.values():
            worker.call(method)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

"""Work shared out among workers, on this machine or on several: each holds an object of its own, which is called by the names of its methods.

An *engine* says where they are. How many there are, and where, is never a matter of the results: whoever shares work out cuts it
into pieces that depend on neither, and puts the results together in order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue
from typing import Any, Protocol

from coevolve.core.concurrency import in_order
from coevolve.core.errors import CoevolveError
from coevolve.core.params import Compute
from coevolve.core.processes import UNREACHABLE, Worker, WorkerDied, WorkerLost, available, prepare

Standing = Callable[[], Mapping[str, str]]  # what must be the same wherever a worker is, by name


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

    def hire(self, make: Callable[..., Any], *arguments: Any, standing: Standing = dict) -> Hired:
        """A worker that holds what ``make(*arguments)`` returns. An argument that is the path of a folder goes there with what it holds.

        ``standing`` must be the same there besides.
        """
        ...


class Local:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count

    def hire(self, make: Callable[..., Any], *arguments: Any, standing: Standing = dict) -> Worker:
        prepare(make.__module__)
        return Worker(make, *arguments)


@contextmanager
def _local(config: Compute, standing: Standing) -> Iterator[Engine | None]:
    yield local()


def local() -> Local | None:
    """As many processes as this one may have; None where there is no other."""
    return Local(available()) if available() > 1 else None


def _ray(config: Compute, standing: Standing) -> AbstractContextManager[Engine | None]:
    from coevolve.core.cluster import cluster

    return cluster(config, standing)


ENGINES: dict[str, Callable[[Compute, Standing], AbstractContextManager[Engine | None]]] = {
    "local": _local,
    "ray": _ray,
}


def engine(config: Compute, standing: Standing = dict) -> AbstractContextManager[Engine | None]:
    """The engine that the section `compute` asks for, or None where this process works alone.

    ``standing`` is asked here and by every worker on another machine: one that differs from here is a CoevolveError.
    """
    return ENGINES[config.engine](config, standing)


class Workers:
    """As many workers as ``engine`` has, which hold the same.

    One that dies is replaced. One whose machine is lost is not: its call is made again by another.
    """

    def __init__(self, engine: Engine, make: Callable[..., Any], *arguments: Any) -> None:
        self._hire: Callable[[], Hired] = lambda: engine.hire(make, *arguments)
        self.count = engine.count
        self._workers: dict[int, Hired] = {place: self._hire() for place in range(engine.count)}
        self._free: SimpleQueue[int | None] = SimpleQueue()
        for place in self._workers:
            self._free.put(place)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """The result from whichever worker is free next. WorkerDied: the call may be made again, by another one."""
        while True:
            place = self._free.get()
            if place is None:
                self._free.put(None)  # for whoever else waits
                raise CoevolveError(UNREACHABLE)
            try:
                result = self._workers[place].call(method, *arguments)
            except WorkerLost:
                self._workers.pop(place).close()
                if not self._workers:
                    self._free.put(None)
                continue
            except WorkerDied:
                self._workers[place].close()
                self._workers[place] = self._hire()
                self._free.put(place)
                raise
            except BaseException:
                self._free.put(place)
                raise
            self._free.put(place)
            return result

    def map(self, action: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """``action`` of every item, in order, as many at once as there are workers: it makes the calls."""
        yield from in_order(action, items, self.count)

    def close(self) -> None:
        for one in self._workers.values():
            one.close()

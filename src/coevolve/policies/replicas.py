"""One policy in several processes, so that a rollout can play with all of them at once."""

from collections.abc import Callable, Sequence
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import Worker, WorkerDied, prepare
from coevolve.policies.policy import Conversation, Reply


class Replica:
    """A policy in a process of its own; see ``coevolve.policies.policy.Policy``."""

    name = "replica"

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def pid(self) -> int | None:
        return self._worker.pid

    def call(self, method: str, *arguments: Any) -> Any:
        try:
            return self._worker.call(method, *arguments)
        except WorkerDied as error:
            raise CoevolveError(
                f"{error}; if memory ran out, lower policy.batch or set COEVOLVE_PROCESSES=1, then run the same command again"
            ) from None

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self.call("begin", conversations)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        replies: list[Reply] = self.call("act", conversations)
        return replies

    def close(self) -> None:
        self._worker.close()


class Replicas:
    """As many of the policy that ``make(*arguments)`` returns as there are processes; a replica plays one batch at a time."""

    def __init__(self, count: int, make: Callable[..., Any], *arguments: Any) -> None:
        prepare(make.__module__)
        self.members = [Replica(Worker(make, *arguments)) for _ in range(count)]

    def close(self) -> None:
        for one in self.members:
            one.close()

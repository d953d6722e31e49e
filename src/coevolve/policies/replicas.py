"""One policy in several workers, so that a rollout can play with all of them in parallel."""

from collections.abc import Callable, Sequence
from typing import Any

from coevolve.core.arithmetic import arithmetic_fingerprint
from coevolve.core.errors import CoevolveError
from coevolve.core.processes import WorkerDied, WorkerLost
from coevolve.core.workers import Engine, Hired
from coevolve.policies.policy import Conversation, Reply


class Replica:
    """A policy in a worker; see ``coevolve.policies.policy.Policy``."""

    name = "replica"

    def __init__(self, worker: Hired) -> None:
        self.worker = worker

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the policy. After WorkerLost (its machine is out of reach), another replica may repeat the call."""
        try:
            return self.worker.call(method, *arguments)
        except WorkerLost:
            raise
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
        self.worker.close()


class Replicas:
    """Copies of the policy that ``make(*arguments)`` returns, one per worker of ``engine``. A replica plays one batch at a time."""

    def __init__(self, engine: Engine, make: Callable[..., Any], *arguments: Any) -> None:
        self.members = [
            Replica(engine.hire(make, *arguments, fingerprint=arithmetic_fingerprint)) for _ in range(engine.count)
        ]

    def close(self) -> None:
        for one in self.members:
            one.close()

"""One policy in several workers, so that a rollout can play with all of them in parallel."""

from collections.abc import Sequence
from typing import Any

from coevolve.core.workers import Workers
from coevolve.policies.policy import Conversation, Reply


class Replica:
    """A policy in a worker; see ``coevolve.policies.policy.Policy``."""

    name = "replica"

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.call, self.close = worker.call, worker.close

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self.call("begin", conversations)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        replies: list[Reply] = self.call("act", conversations)
        return replies


class Replicas(Workers):
    """Copies of a policy, one per worker. A replica plays one batch at a time."""

    def member(self, worker: Any) -> Replica:
        return Replica(worker)

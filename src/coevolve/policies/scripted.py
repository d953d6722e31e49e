"""Policies without a model, for tests, baselines and benchmarks. Say so wherever their results are shown."""

from collections.abc import Sequence

from coevolve.environments.base import Environment
from coevolve.policies.base import Conversation, Reply
from coevolve.policies.text import render_call
from coevolve.records import ToolCall
from coevolve.seeding import generator


class ReferencePolicy:
    """Replays a task's reference a call at a time, and with chance ``corruption`` leaves a call out."""

    name = "reference"

    def __init__(self, environment: Environment, corruption: float = 0.0) -> None:
        self._environment = environment
        self._corruption = corruption
        self._left: dict[int, list[ToolCall | None]] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._left = {}
        for one in conversations:
            rng = generator("reference policy", one.seed)
            calls: list[ToolCall | None] = []
            for turn in self._environment.reference(one.task):
                calls.extend(call for call in turn if rng.random() >= self._corruption)
                calls.append(None)  # the end of a turn is a message without a call
            self._left[one.key] = calls

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        replies = []
        for one in conversations:
            call = self._left[one.key].pop(0) if self._left[one.key] else None
            replies.append(Reply("done") if call is None else Reply(render_call(call), [call]))
        return replies

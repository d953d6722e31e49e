"""Policies without a model, for tests, baselines and benchmarks. Reports of their results must say so."""

from collections.abc import Sequence

from coevolve.core.seeding import rng_for
from coevolve.core.task import DONE, ToolCall
from coevolve.environments.environment import Environment
from coevolve.policies.call_format import render_call
from coevolve.policies.policy import Conversation, Reply


class ReferencePolicy:
    """Replays a task's reference call by call (``parallel``: turn by turn).

    It omits a call with probability ``corruption``.
    """

    def __init__(self, environment: Environment, corruption: float = 0.0, parallel: bool = False) -> None:
        self._environment = environment
        self._corruption = corruption
        self._parallel = parallel
        self._left: dict[int, list[list[ToolCall]]] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._left = {}
        for one in conversations:
            replies: list[list[ToolCall]] = []
            for calls in self.planned(one):
                replies += [calls] * bool(calls) if self._parallel else [[call] for call in calls]
                replies.append([])  # the end of a turn is a message without a call
            self._left[one.key] = replies

    def planned(self, conversation: Conversation) -> list[list[ToolCall]]:
        """The calls to make, turn by turn."""
        rng = rng_for("reference policy", conversation.seed)
        reference = self._environment.reference(conversation.task)
        return [[call for call in turn if rng.random() >= self._corruption] for turn in reference]

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        replies = []
        for one in conversations:
            calls = self._left[one.key].pop(0) if self._left[one.key] else []
            text = "\n".join(render_call(call) for call in calls) or DONE
            replies.append(Reply(text, calls))
        return replies

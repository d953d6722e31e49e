"""The protocol of policies, which act in episodes, its records, and a policy in several workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coevolve.core.task import Task, ToolCall
from coevolve.core.workers import Workers


@dataclass(slots=True)
class Conversation:
    """An episode as the policy sees it.

    ``key`` identifies the episode within a rollout, so that a policy can keep state for it (a KV cache). ``messages`` are OpenAI
    chat messages, and the list only grows. ``seed`` determines the samples of this episode, independently of other episodes in
    its batch. ``task`` is for scripted policies only. ``room`` is the number of tokens that the episode has left, including the
    prompt. ``reply_tokens`` is the largest number of tokens in a reply.
    """

    key: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    task: Task
    seed: int
    room: int
    reply_tokens: int


@dataclass(slots=True)
class Reply:
    """A reply of a policy, with ``calls`` to make in order. A reply without calls is a message.

    ``prompt_ids`` are the tokens that this turn added before the reply (at first the whole prompt). ``token_ids`` are the sampled
    tokens with their ``logprobs`` (natural logarithm, same length). All three are empty for policies without tokens.
    ``invalid``: the text contains a call that cannot be parsed, for the reason in ``error``. ``truncated``: a token limit cut the
    reply. ``refused``: the model's server refused the conversation for this reason. ``lost``: it gave no reply to a first request,
    so nobody played the episode. A policy that only counts tokens gives ``prompt_tokens`` (of the whole prompt) and ``reply_tokens`` instead.
    """

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    invalid: bool = False
    error: str = ""
    truncated: bool = False
    refused: str = ""
    lost: str = ""
    prompt_tokens: int = 0
    reply_tokens: int = 0


class Policy(Protocol):
    """Acts in many conversations at the same time."""

    def begin(self, conversations: Sequence[Conversation]) -> None:
        """Start a rollout with these conversations, and forget the state of earlier ones."""

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """A reply to each conversation, in order. ``conversations`` is any subset of those given to ``begin``."""


class Replica:
    """A policy in a worker; see ``coevolve.policies.policy.Policy``."""

    def __init__(self, worker: Any) -> None:
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

"""Who acts: the protocol that every policy fulfils, and what passes through it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coevolve.core.task import Task, ToolCall


@dataclass(slots=True)
class Conversation:
    """An episode as the policy sees it.

    ``key`` identifies the episode within a rollout, so that a policy may keep state for it (a KV cache).
    ``messages`` are OpenAI chat messages and only ever grow. ``seed`` fixes what is sampled for this
    episode, whichever other episodes share its batch. ``task`` is for scripted policies only. ``room`` is how many
    tokens the episode has left, prompt included, and ``reply_tokens`` how many one reply may have.
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
    """What a policy said: ``calls`` to make in order, or none, which makes it a message.

    ``prompt_ids`` are the tokens this turn added before the reply (all of the prompt, at first),
    ``token_ids`` the sampled ones with their ``logprobs`` (natural logarithm, same length);
    all three are empty for policies without tokens. ``invalid``: the text held something like a call
    that could not be parsed; its reason is in ``error``. ``truncated``: a token limit cut the reply. A policy that only
    counts tokens gives ``prompt_tokens`` (of the whole prompt) and ``reply_tokens`` instead.
    """

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    invalid: bool = False
    error: str = ""
    truncated: bool = False
    prompt_tokens: int = 0
    reply_tokens: int = 0


class Policy(Protocol):
    """Acts in many conversations at once."""

    name: str

    def begin(self, conversations: Sequence[Conversation]) -> None:
        """A rollout starts with these conversations: forget what was kept for earlier ones."""
        ...

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply each, in order. ``conversations`` is any subset of those of ``begin``."""
        ...

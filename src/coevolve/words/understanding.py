"""What an environment may add to help verification: methods by which it understands the words of its tasks."""

from typing import Protocol, runtime_checkable

from coevolve.core.task import Task, ToolCall
from coevolve.words.lexicon import Meaning


@runtime_checkable
class ParsesWords(Protocol):
    """An environment that can parse the words of a task."""

    def reading(self, task: Task) -> list[ToolCall] | None:
        """The calls that the words of ``task`` ask for in its world; None if they cannot be parsed.

        Implementations must not use the reference: verification compares these calls with it.
        """
        ...


@runtime_checkable
class KnowsMeanings(Protocol):
    """An environment that knows what its words can mean."""

    def meaning(self, task: Task) -> Meaning | None:
        """The senses of words in the world of ``task``, and the senses of its reference; None if they are unknown."""
        ...

"""Requests to an endpoint and its answers: the used part of the chat completions format."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

SILENT = "(no words)"  # a reply without words or calls, for servers, which refuse an empty one
CHARACTERS_PER_TOKEN = 3.0  # for a cautious estimate of a prompt's tokens before the server counts them


class Failed(Exception):
    """A request got no usable answer. Its conversation ends; others continue.

    ``final``: another attempt would get none either. ``wait``: seconds that the server asks to wait. ``heard``: the server replied.
    """

    def __init__(self, reason: str, final: bool = False, wait: float | None = None, heard: bool = True) -> None:
        super().__init__(reason)
        self.final, self.wait, self.heard = final, wait, heard


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: OpenAI chat messages, tools as function schemas, and the JSON schema of the reply, if it has one.

    ``seed`` distinguishes requests of equal content, and servers may sample with it.
    """

    messages: list[dict[str, Any]]
    temperature: float
    max_tokens: int
    seed: int
    tools: list[dict[str, Any]] = field(default_factory=list)
    schema: dict[str, Any] | None = None

    def content(self) -> dict[str, Any]:
        """All values on which the answer depends."""
        names = ("messages", "tools", "schema", "temperature", "max_tokens", "seed")
        return {name: getattr(self, name) for name in names}

    def prompt_tokens(self) -> int:
        """An upper estimate of the prompt's tokens. Each character beyond ASCII counts as a token."""
        size = sum(len(str(value).encode(errors="replace")) for value in (self.messages, self.tools, self.schema or ""))
        return int(size / CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call from the server. ``arguments`` is text that should be a JSON object."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply of the server. ``message`` is the assistant's message as it came, to send back; None in older logs."""

    content: str
    calls: list[RawCall]
    finish_reason: str
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]
    message: dict[str, Any] | None = None

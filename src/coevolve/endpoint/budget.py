"""The budget of an endpoint and its use: a hard stop in requests and in tokens."""

import threading
from dataclasses import dataclass, field

from coevolve.endpoint.config import EndpointSection
from coevolve.endpoint.messages import Answer


class Exhausted(Exception):
    """The budget is used up. Callers keep their results and stop."""


@dataclass
class Budget:
    """Allows ``budget_requests`` requests (failed requests and remembered answers count) and ``budget_tokens`` tokens.

    It counts the ``requests`` sent or remembered, the ``answered`` ones, those ``remembered`` from the log, and tokens. A request is
    allowed only if its estimate still fits with the estimates of all open requests. The cost of an answer from the log counts too, so
    an interrupted run ends at the same place as an uninterrupted one.
    """

    config: EndpointSection
    requests: int = 0
    answered: int = 0
    remembered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _reserved: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __str__(self) -> str:
        cost = f", ${self.cost:.2f}" if self.cost else ""
        return f"{self.requests} requests, {self.tokens / 1000:.1f}k tokens{cost}"

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost(self) -> float:
        """USD. Prices are USD per million tokens."""
        return (self.prompt_tokens * self.config.input_price + self.completion_tokens * self.config.output_price) / 1e6

    def reserve(self, tokens: int) -> None:
        """Allow a request of at most ``tokens`` tokens. Raises Exhausted if it does not fit."""
        with self._lock:
            if self.requests >= self.config.budget_requests:
                raise Exhausted(f"endpoint.budget_requests ({self.config.budget_requests}) is reached")
            if self.tokens + self._reserved + tokens > self.config.budget_tokens:
                raise Exhausted(f"endpoint.budget_tokens ({self.config.budget_tokens}) is reached")
            self._reserved += tokens
            self.requests += 1

    def settle(self, reserved: int, answer: Answer | None) -> None:
        """Replace the ``reserved`` tokens by those of the answer, or of None if there is no answer."""
        with self._lock:
            self._reserved -= reserved
            if answer is not None:
                self.answered += 1
                self.prompt_tokens += answer.prompt_tokens
                self.completion_tokens += answer.completion_tokens

    def remember(self, answer: Answer) -> None:
        """Count an answer from the log."""
        with self._lock:
            self.requests += 1
            self.remembered += 1
        self.settle(0, answer)

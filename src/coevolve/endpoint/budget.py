"""The budget of an endpoint and its use: a hard stop in requests and in tokens."""

import threading
from dataclasses import dataclass, replace

from coevolve.endpoint.messages import Answer, Ask


class Exhausted(Exception):
    """The budget is used up. Callers keep their results and stop."""


@dataclass(frozen=True, slots=True)
class Spend:
    """The use of a budget: ``requests`` sent or remembered, the ``answered`` ones, those ``remembered`` from the log, tokens, USD."""

    requests: int = 0
    answered: int = 0
    remembered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def __str__(self) -> str:
        cost = f", ${self.cost:.2f}" if self.cost else ""
        tokens = self.prompt_tokens + self.completion_tokens
        return f"{self.requests} requests, {tokens / 1000:.1f}k tokens{cost}"


class Budget:
    """At most ``max_requests`` requests (failed requests and remembered answers count) and ``max_tokens`` tokens.

    A request is allowed only if its estimate still fits with the estimates of all open requests. The cost of an answer from the log
    counts too, so an interrupted run ends at the same place as an uninterrupted one. Prices are USD per million tokens.
    """

    def __init__(self, max_requests: int, max_tokens: int, input_price: float, output_price: float) -> None:
        self._max_requests, self._max_tokens = max_requests, max_tokens
        self._prices = (input_price, output_price)
        self._reserved = 0
        self._lock = threading.Lock()
        self.spend = Spend()

    def reserve(self, ask: Ask) -> int:
        """Allow a request and return its reserved tokens for ``settle``. Raises Exhausted if it does not fit."""
        tokens = ask.tokens()
        with self._lock:
            spent = self.spend.prompt_tokens + self.spend.completion_tokens
            if self.spend.requests >= self._max_requests:
                raise Exhausted(f"endpoint.budget_requests ({self._max_requests}) is reached")
            if spent + self._reserved + tokens > self._max_tokens:
                raise Exhausted(f"endpoint.budget_tokens ({self._max_tokens}) is reached")
            self._reserved += tokens
            self.spend = replace(self.spend, requests=self.spend.requests + 1)
        return tokens

    def remember(self, answer: Answer) -> None:
        """Count an answer from the log."""
        with self._lock:
            self.spend = replace(self.spend, requests=self.spend.requests + 1, remembered=self.spend.remembered + 1)
            self._add(answer)

    def settle(self, reserved: int, answer: Answer | None) -> None:
        """Replace the ``reserved`` tokens by those of the answer, or of None if there is no answer."""
        with self._lock:
            self._reserved -= reserved
            if answer is not None:
                self._add(answer)

    def _add(self, answer: Answer) -> None:
        paid = (answer.prompt_tokens * self._prices[0] + answer.completion_tokens * self._prices[1]) / 1e6
        self.spend = replace(
            self.spend,
            answered=self.spend.answered + 1,
            prompt_tokens=self.spend.prompt_tokens + answer.prompt_tokens,
            completion_tokens=self.spend.completion_tokens + answer.completion_tokens,
            cost=self.spend.cost + paid,
        )

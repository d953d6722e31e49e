"""A client of a model at an OpenAI-compatible endpoint, where requests cost money.

An append-only log stores every request with its reply, by content hash. So no reply is paid for twice, and a finished exploration can
be replayed without a network. A budget in requests and tokens is a hard stop. Temporary failures (429, 5xx, resets, stalls, broken
JSON) are retried with backoff. A final refusal of the server is one clear error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from coevolve.core.calls import DEPTH
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.scratch import scratch
from coevolve.core.seeding import rng_for
from coevolve.core.untrusted import one_line, sound
from coevolve.endpoint.budget import Budget, Exhausted, Spend
from coevolve.endpoint.config import EndpointSection
from coevolve.endpoint.log import RequestLog
from coevolve.endpoint.messages import Answer, Ask
from coevolve.endpoint.secret import key_of
from coevolve.endpoint.transport import Passing, Rejected, Transport

__all__ = ["Answer", "Ask", "Endpoint", "Exhausted", "Failed", "Spend", "open_endpoint"]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between attempts, doubled each time
LONGEST_WAIT = 600.0  # seconds that a server may ask a client to wait
# Requests in a row without an answer end the stage: three that reach no server, or twelve on which the server fails.
LOST, UNHEARD, FAILED_ON = 12, 4, 1
LEVELS = DEPTH - 4  # most levels of JSON in a request, so that a line of the log stays readable


class Failed(Exception):
    """A request got no usable answer. Its conversation ends; others continue. ``final``: it would never get one."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class Endpoint:
    """Sends requests to ``config.model`` at ``config.url``. Safe to use from many threads.

    It looks in ``log`` before it sends a request. With ``replay`` it sends nothing: a request that ``log`` lacks counts as a used-up
    budget, because the run that wrote the log ended there.
    """

    def __init__(self, config: EndpointSection, log: RequestLog, replay: bool = False) -> None:
        self.config = config
        self.model = config.model
        self.missing = 0  # requests that a replay did not find
        self._log = log
        self._replay = replay
        key = None if replay else key_of(config.key)
        self._transport = Transport(config.url, key, config.timeout, config.concurrency)
        self._budget = Budget(config.budget_requests, config.budget_tokens, config.input_price, config.output_price)
        self._used: dict[str, None] = {}
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._not_before = 0.0
        self._lost = 0  # weight of the last requests in a row without an answer
        self._idle = threading.Condition()
        self._on_their_way = 0
        self._closed = threading.Event()
        self._watch: Callable[[Spend], object] = lambda spend: None

    def watch(self, callback: Callable[[Spend], object]) -> None:
        """Call ``callback`` after every change of the spending."""
        self._watch = callback

    @property
    def spend(self) -> Spend:
        return self._budget.spend

    def key(self, ask: Ask) -> str:
        """Content hash of a request: of the model and the contents, not of the server's address."""
        return content_hash({"model": self.model, **ask.content()}, 32)

    def chat(self, ask: Ask) -> Answer:
        """The answer, from the log or the server.

        Raises Exhausted if the budget is used up, Failed if this request gets no answer, and CoevolveError if no request would get
        one (unreachable, unknown model, refused key).
        """
        try:
            ask = self._clean(ask)
            key = self.key(ask)
        except (ValueError, TypeError, RecursionError) as error:
            raise Failed(f"the request cannot be written as JSON ({one_line(str(error))})", final=True) from None
        with self._lock:
            turn = self._asking.setdefault(key, threading.Lock())
        with turn:  # two callers with the same request pay once
            known = self._log.get(key)
            if known is not None:
                if key not in self._used:
                    self._budget.remember(known)
            elif self._replay:
                self.missing += 1
                raise Exhausted("the log that is replayed ends here")
            else:
                with self._under_way():
                    known = self._send(key, ask)
                    self._log.put(key, {"model": self.model, **ask.content()}, known)
            with self._lock:
                self._used[key] = None
        self._watch(self.spend)
        return known

    def _clean(self, ask: Ask) -> Ask:
        """``ask`` without the key, and with text that a log can hold: an environment's answers may violate both."""
        told = {"messages": sound(ask.messages, LEVELS), "tools": sound(ask.tools, LEVELS)}
        return replace(ask, **self._transport.clean(told))

    def used(self) -> list[dict[str, object]]:
        """The used lines of the log, in a fixed order. They are enough for a replay."""
        return [self._log.line(key) for key in sorted(self._used)]

    def close(self) -> None:
        """Send no further request, wait for open replies (they are paid for), and log them.

        The wait is at most the time limit of a reply.
        """
        self._closed.set()
        with self._idle:
            if self._on_their_way:
                print(f"waiting for {self._on_their_way} open replies", file=sys.stderr)
            seconds = min(self.config.timeout, threading.TIMEOUT_MAX)
            self._idle.wait_for(lambda: not self._on_their_way, timeout=seconds)
        self._transport.close()

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """The time from sending a request until its answer is in the log. ``close`` waits for the end of such blocks."""
        with self._idle:
            self._on_their_way += 1
        try:
            yield
        finally:
            with self._idle:
                self._on_their_way -= 1
                self._idle.notify_all()

    def _send(self, key: str, ask: Ask) -> Answer:
        for attempt in range(self.config.retries + 1):
            self._wait()
            if self._closed.is_set():
                raise Exhausted("the endpoint is closed")
            reserved, answer = self._budget.reserve(ask), None
            self._watch(self.spend)
            try:
                # another seed: some servers fail on their own sample, and the same seed would sample it again
                answer = self._transport.send(self.model, ask, ask.seed + attempt)
                self._lost = 0
                return answer
            except Passing as reason:
                if attempt == self.config.retries:
                    self._give_up(reason)
                passing = reason
            except Rejected as reason:
                raise Failed(str(reason), final=True) from None
            finally:
                self._budget.settle(reserved, answer)
            self._pause(key, attempt, passing.wait)
        raise AssertionError("unreachable")

    def _give_up(self, reason: Passing) -> None:
        with self._lock:
            self._lost += FAILED_ON if reason.heard else UNHEARD
            lost = self._lost
        if lost >= LOST or not (reason.heard or self._budget.spend.answered):
            raise CoevolveError(
                f"endpoint {self._transport.shown}: no answer after {self.config.retries + 1} attempts ({reason}); "
                "check that the server runs and check endpoint.url in params.yaml, then run the same command again: "
                "the log holds all answers, and they are not requested again"
            )
        raise Failed(str(reason))

    def _pause(self, key: str, attempt: int, asked: float | None) -> None:
        """Wait before the next attempt: as long as the server asks all requests to, or else a growing pause of this request."""
        if asked is not None:
            if asked > LONGEST_WAIT:
                raise CoevolveError(
                    f"endpoint {self._transport.shown} asks to wait {asked:.0f} s; run the same command again then: "
                    "the log holds all answers, and they are not requested again"
                )
            with self._lock:  # the server's pause applies to all threads
                self._not_before = max(self._not_before, time.monotonic() + asked)
            return
        pause = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
        self._closed.wait(pause * rng_for("pause", key, attempt).uniform(0.5, 1.0))

    def _wait(self) -> None:
        """Wait as long as the server asked for, or until this client is closed."""
        while (left := self._not_before - time.monotonic()) > 0 and not self._closed.wait(left):
            pass


def open_endpoint(config: EndpointSection, log: Path | None = None) -> Endpoint:
    """The endpoint that ``config`` describes, with its log in the scratch folder (or ``log``), or its replay."""
    if config.replay is not None:
        if not Path(config.replay).exists():
            raise CoevolveError(
                f"endpoint.replay: {config.replay}: no such file; name a requests.jsonl, or set it to null"
            )
        if not config.model:
            raise CoevolveError("endpoint.model is empty; a replay needs the model's name from the log")
        return Endpoint(config, RequestLog(Path(config.replay), writable=False), replay=True)
    if not config.model:
        transport = Transport(config.url, key_of(config.key), config.timeout, 1)
        models = transport.models()
        transport.close()
        served = f"the server has: {', '.join(models)}" if models else "ask the server's operator for the model's name"
        raise CoevolveError(f"endpoint.model is empty; {served}")
    place = log or scratch() / "requests" / f"{content_hash([config.url, config.model])}.jsonl"
    return Endpoint(config, RequestLog(place))

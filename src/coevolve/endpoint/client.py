"""A client of a model at an OpenAI-compatible endpoint, where requests cost money.

An append-only log stores every request with its reply, by content hash. So no reply is paid for twice, and a finished exploration can
be replayed without a network. A budget in requests and tokens is a hard stop. Temporary failures (429, 5xx, resets, stalls, broken
JSON) are retried with backoff. A final refusal of the server is one clear error.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import parse
from coevolve.core.scratch import scratch
from coevolve.core.seeding import rng_for
from coevolve.core.untrusted import DEPTH, loads, one_line, sound
from coevolve.endpoint.config import EndpointSection
from coevolve.endpoint.messages import Answer, Ask, Failed

if TYPE_CHECKING:
    from coevolve.endpoint.transport import Transport

__all__ = ["Answer", "Ask", "Endpoint", "Exhausted", "Failed", "open_endpoint"]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between attempts, doubled each time
LONGEST_WAIT = 600.0  # seconds that a server may ask a client to wait
LOST = 8  # requests in a row without an answer that end the stage
AGAIN = "run the same command again: the log holds all answers, and they are not requested again"


class Exhausted(Exception):
    """The budget is used up. Callers keep their results and stop."""


@dataclass
class Budget:
    """Allows ``budget_requests`` requests (failed requests and remembered answers count) and ``budget_tokens`` tokens.

    It counts the ``requests`` sent or remembered from the log, the ``answered`` ones, and tokens. A request is allowed only if its
    estimate still fits with the estimates of all open requests. The cost of an answer from the log counts too, so an interrupted
    run ends at the same place as an uninterrupted one.
    """

    config: EndpointSection
    requests: int = 0
    answered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _reserved: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __str__(self) -> str:
        cost = f", ${self.cost:.2f}" if self.cost else ""
        return f"{self.requests} requests, {(self.prompt_tokens + self.completion_tokens) / 1000:.1f}k tokens{cost}"

    @property
    def cost(self) -> float:
        """USD. Prices are USD per million tokens."""
        return (self.prompt_tokens * self.config.input_price + self.completion_tokens * self.config.output_price) / 1e6

    def reserve(self, tokens: int) -> None:
        """Allow a request of at most ``tokens`` tokens. Raises Exhausted if it does not fit."""
        with self._lock:
            if self.requests >= self.config.budget_requests:
                raise Exhausted(f"endpoint.budget_requests ({self.config.budget_requests}) is reached")
            used = self.prompt_tokens + self.completion_tokens + self._reserved
            if used + tokens > self.config.budget_tokens:
                raise Exhausted(f"endpoint.budget_tokens ({self.config.budget_tokens}) is reached")
            self._reserved += tokens
            self.requests += 1

    def settle(self, reserved: int, answer: Answer | None, remembered: int = 0) -> None:
        """Replace the ``reserved`` tokens by those of the answer, or of None if there is no answer."""
        with self._lock:
            self._reserved -= reserved
            self.requests += remembered
            if answer is not None:
                self.answered += 1
                self.prompt_tokens += answer.prompt_tokens
                self.completion_tokens += answer.completion_tokens


class RequestLog:
    """Reads all of ``path`` at the start. It skips a line that a crash cut short; that request is sent again.

    Several processes may append to one file. ``writable`` False is for replays.
    """

    def __init__(self, path: Path, writable: bool = True) -> None:
        self._path = path
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        try:
            if writable:
                path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
        except OSError as error:
            raise CoevolveError(f"{path}: cannot be read ({error.strerror}); expected a request log") from None
        self._end = b"\n" if lines[-1] else b""  # ends a line that a crash cut short
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            try:
                line = loads(text)
                reply = asdict(parse(Answer, line["reply"], "reply"))
                self._lines.setdefault(line["key"], {"key": line["key"], "request": line["request"], "reply": reply})
            except (ValueError, KeyError, TypeError, CoevolveError):
                if not writable:
                    raise CoevolveError(
                        f"{path}:{number}: expected a line of a request log; copy the whole file again"
                    ) from None

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: str) -> Answer | None:
        line = self._lines.get(key)
        return None if line is None else parse(Answer, line["reply"], "reply")

    def line(self, key: str) -> dict[str, Any]:
        return self._lines[key]

    def put(self, key: str, request: dict[str, Any], answer: Answer) -> None:
        line = {"key": key, "request": request, "reply": asdict(answer)}
        with self._lock:
            self._lines[key] = line
            try:
                with self._path.open("ab") as file:
                    file.write(self._end + json.dumps(line).encode() + b"\n")
                self._end = b""
            except OSError as error:
                raise CoevolveError(
                    f"{self._path}: cannot be written ({error.strerror}); make room, then run the same command again: "
                    "the log holds all earlier answers"
                ) from None


class Endpoint:
    """Sends requests to ``config.model`` at ``config.url``. Safe to use from many threads.

    It looks in ``log`` before it sends a request. Without a ``transport`` it replays the log: a request that ``log`` lacks counts as a
    used-up budget, because the run that wrote the log ended there. ``spend`` is the use of the budget.
    """

    def __init__(self, config: EndpointSection, log: RequestLog, transport: "Transport | None") -> None:
        self.config = config
        self.model = config.model
        self.spend = Budget(config)
        self.missing = 0  # requests that a replay did not find
        self.watch: Callable[[], object] = lambda: None  # called after every change of the spending
        self._log = log
        self._transport = transport
        self._used: set[str] = set()
        self._turns: dict[str, threading.Lock] = {}  # one for each request, held until its answer is in the log
        self._lock = threading.Lock()
        self._lost = 0  # requests in a row without an answer
        self._closed = threading.Event()

    def key(self, ask: Ask) -> str:
        """Content hash of a request: of the model and the contents, not of the server's address."""
        return content_hash({"model": self.model, **ask.content()}, 32)

    def chat(self, ask: Ask) -> Answer:
        """The answer, from the log or the server.

        Raises Exhausted if the budget is used up, Failed if this request gets no answer, and CoevolveError if no request would get
        one (unreachable, unknown model, refused key).
        """
        try:  # an environment's answers may hold the key, and text that a log cannot hold
            text = json.dumps({"messages": ask.messages, "tools": ask.tools}, allow_nan=False)
            ask = replace(
                ask, **sound(json.loads(self._transport.secret.hide(text) if self._transport else text), DEPTH - 1)
            )
            key = self.key(ask)
        except (ValueError, TypeError, RecursionError) as error:
            raise Failed(f"the request cannot be written as JSON ({one_line(str(error))})", final=True) from None
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # two callers with the same request pay once
            answer = self._log.get(key)
            if answer is None:
                answer = self._send(key, ask)
                self._log.put(key, {"model": self.model, **ask.content()}, answer)
            elif key not in self._used:
                self.spend.settle(0, answer, remembered=1)
            self._used.add(key)
        self.watch()
        return answer

    def used(self) -> list[dict[str, Any]]:
        """The used lines of the log, in a fixed order. They are enough for a replay."""
        return [self._log.line(key) for key in sorted(self._used)]

    def close(self) -> None:
        """Send no further request, wait for open replies (they are paid for) as long as a reply may take, and log them."""
        self._closed.set()
        until = time.monotonic() + min(self.config.timeout, threading.TIMEOUT_MAX / 2)
        for turn in list(self._turns.values()):
            if turn.acquire(timeout=max(0.0, until - time.monotonic())):
                turn.release()
        if self._transport:
            self._transport.close()

    def _send(self, key: str, ask: Ask) -> Answer:
        if self._transport is None:
            self.missing += 1
            raise Exhausted("the log that is replayed ends here")
        tokens = ask.prompt_tokens() + ask.max_tokens
        for attempt in range(self.config.retries + 1):
            if self._closed.is_set():
                raise Exhausted("the endpoint is closed")
            self.spend.reserve(tokens)
            self.watch()
            answer = None
            try:
                # another seed: some servers fail on their own sample, and the same seed would sample it again
                answer = self._transport.send(self.model, ask, ask.seed + attempt)
                self._lost = 0
                return answer
            except Failed as error:
                failure = error
            finally:
                self.spend.settle(tokens, answer)
            if failure.final:
                self._refused(failure)
            if failure.wait and failure.wait > LONGEST_WAIT:
                raise CoevolveError(f"endpoint {self.config.url} asks to wait {failure.wait:.0f} s; then {AGAIN}")
            if attempt < self.config.retries:
                pause = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
                self._closed.wait(failure.wait or pause * rng_for("pause", key, attempt).uniform(0.5, 1.0))
        self._lost += 1
        if self._lost < LOST and (failure.heard or self.spend.answered):
            raise failure
        raise CoevolveError(
            f"endpoint {self.config.url}: no answer after {self.config.retries + 1} attempts ({failure}); "
            f"check that the server runs and check endpoint.url in params.yaml, then {AGAIN}"
        )

    def _refused(self, failure: Failed) -> NoReturn:
        """Raise ``failure``, which ends a conversation. If no conversation has got an answer, it ends the stage."""
        self._lost += not self.spend.answered
        if self.spend.answered or self._lost < LOST:
            raise failure
        raise CoevolveError(f"endpoint {self.config.url}: none of {self._lost} requests got an answer; {failure}")


def open_endpoint(config: EndpointSection, log: Path | None = None) -> Endpoint:
    """The endpoint that ``config`` describes, with its log in the scratch folder (or ``log``), or its replay."""
    if config.replay is not None:
        if not Path(config.replay).exists():
            raise CoevolveError(
                f"endpoint.replay: {config.replay}: no such file; name a requests.jsonl, or set it to null"
            )
        if not config.model:
            raise CoevolveError("endpoint.model is empty; a replay needs the model's name from the log")
        return Endpoint(config, RequestLog(Path(config.replay), writable=False), None)
    from coevolve.endpoint.transport import Transport  # imports the `openai` client, which takes a second

    transport = Transport(config)
    if not config.model:
        models = transport.models()
        served = f"the server has: {', '.join(models)}" if models else "ask the server's operator for the model's name"
        raise CoevolveError(f"endpoint.model is empty; {served}")
    place = log or scratch() / "requests" / f"{content_hash([config.url, config.model])}.jsonl"
    return Endpoint(config, RequestLog(place), transport)

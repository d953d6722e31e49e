"""A request over HTTP, and the meaning of its failure: temporary, final for this request, or final for all requests.

It uses httpx and not the `openai` client. Each attempt takes from the budget and has its own seed, so the client could not make the
retries. This module would still need to classify failures. And environment variables could add headers to the client's requests.
"""

import email.utils
import json
import math
import re
import time
from collections.abc import Callable
from typing import Any

import httpx

from coevolve.core.calls import writable
from coevolve.core.errors import CoevolveError
from coevolve.core.untrusted import URL, base_url, loads, one_line
from coevolve.endpoint.exchange import Exchange, Lost, Response
from coevolve.endpoint.messages import Answer, Ask, RawCall
from coevolve.endpoint.secret import Secret

PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
# fields that some servers reject, and their names there (None: omit the field)
OPTIONAL: dict[str, str | None] = {
    "response_format": None,
    "seed": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
}
FINISHED = {"stop", "length", "tool_calls", "function_call", "content_filter"}
MOST = 10**9  # most tokens of a prompt or a reply; larger counts are treated as missing
MODELS = 50  # names of models that an error lists
LOOKED_AT, DETAIL = 100_000, 2000  # characters of a server's error to clean, and to read after that
UNKNOWN_MODEL = ("server is pinned to", "does not exist", "model not found", "model_not_found", "no such model")


class Passing(Exception):
    """A failure that may pass with another attempt. ``wait``: seconds that the server asks for. ``heard``: the server replied."""

    def __init__(self, reason: str, wait: float | None = None, heard: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.heard = heard


class Rejected(Exception):
    """The server will never answer this request."""


class Transport:
    """Sends requests to ``url``. The key appears only in the sent header: ``clean`` removes it from values."""

    def __init__(self, url: str, key: str | None, timeout: float, connections: int) -> None:
        try:
            self.shown = base_url(url)
            httpx.URL(self.shown)
        except (ValueError, httpx.InvalidURL):
            raise CoevolveError(f"endpoint.url: {URL}; change it") from None
        secret = Secret(key)
        self.clean: Callable[[Any], Any] = secret.clean
        self._without: set[str] = set()  # optional fields that this server rejects
        self._served = False  # whether it has answered a request
        self._exchange = Exchange(timeout, connections, secret.headers())

    def close(self) -> None:
        """End open requests."""
        self._exchange.close()

    def models(self) -> list[str]:
        """Names of the models that the server offers; empty if it does not list them."""
        try:
            response = self._exchange.send("GET", f"{self.shown}/models")
            return [self._words(str(one["id"]), 100) for one in loads(response.body)["data"][:MODELS]]
        except Lost as error:
            if not str(error).startswith("ConnectError"):
                return []
            raise CoevolveError(
                f"endpoint {self.shown}: unreachable ({self._words(str(error))}); start the server, or correct endpoint.url"
            ) from None
        except (ValueError, KeyError, TypeError):
            return []

    def send(self, model: str, ask: Ask, seed: int) -> Answer:
        """The answer. Raises Passing, Rejected, or CoevolveError if the server would answer no request."""
        while True:
            body = self._body(model, ask, seed)
            try:
                sent = json.dumps(body, allow_nan=False).encode()
                response = self._exchange.send("POST", f"{self.shown}/chat/completions", sent)
            except Lost as error:
                raise Passing(self._words(str(error)), heard=error.heard) from None
            except (ValueError, TypeError, RecursionError) as error:
                raise Rejected(f"the request cannot be written as JSON ({one_line(str(error))})") from None
            if response.status == 200:
                answer = self._answer(response, ask)
                self._served = True
                return answer
            if not self._adapt(response, body):
                raise self._failure(response, model, ask)

    def _body(self, model: str, ask: Ask, seed: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": model,
            "messages": ask.messages,
            "temperature": ask.temperature,
            "max_tokens": ask.max_tokens,
            "seed": seed % 2**31,
        }
        if ask.tools:
            body["tools"] = ask.tools
        if ask.schema is not None:
            schema = {"name": "reply", "schema": ask.schema, "strict": False}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for field in self._without & set(body):
            value, other = body.pop(field), OPTIONAL[field]
            if other:
                body[other] = value
        return body

    def _adapt(self, response: Response, body: dict[str, Any]) -> bool:
        """Whether the server rejects an optional field. The next attempt omits that field."""
        if response.status not in (400, 422):
            return False
        text = response.text.lower()
        named = {
            field for field in OPTIONAL if field in body and re.search(rf"\b{field}\b", text) and _unsupported(text)
        }
        self._without |= named
        return bool(named)

    def _answer(self, response: Response, ask: Ask) -> Answer:
        try:
            value = loads(response.body)
            choice = value["choices"][0]
            message = choice["message"]
            calls = [
                {"name": _text(call["function"]["name"]), "arguments": _arguments(call["function"].get("arguments"))}
                for call in message.get("tool_calls") or []
            ]
            content, thought = (
                _text(message.get("content")),
                message.get("reasoning_content") or message.get("reasoning"),
            )
            if not content and not calls and isinstance(thought, str):  # a call may stand in it
                content = f"<think>\n{thought}\n</think>"
            said = self.clean({"content": content, "calls": calls})
            finish = choice.get("finish_reason")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            words = self._words(response.text, 80)
            raise Passing(f"a reply that is no chat completion: {words!r}", heard=True) from None
        usage = value.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        return Answer(
            content=said["content"],
            calls=[RawCall(**call) for call in said["calls"]],
            finish_reason=finish if isinstance(finish, str) and finish in FINISHED else "stop",
            prompt_tokens=_counted(counts.get("prompt_tokens"), 1, ask.prompt_tokens()),
            completion_tokens=_counted(
                counts.get("completion_tokens"), int(bool(said["content"] or calls)), ask.max_tokens
            ),
        )

    def _failure(self, response: Response, model: str, ask: Ask) -> Exception:
        """The exception for the status and the server's error text."""
        status, words = response.status, self._words(_detail(response), DETAIL)
        if status in PASSING:
            return Passing(f"HTTP {status}: {words}"[:200], _retry_after(response.retry_after), heard=True)
        if status in (401, 403):
            return CoevolveError(
                f"endpoint {self.shown}: the key is refused (HTTP {status}); set the environment variable that "
                "endpoint.key names"
            )
        lower = words.lower()
        if (overflow := _overflow(words, ask.max_tokens)) is not None:
            held, wanted = overflow
            return Rejected(
                f"context too long: the prompt (with {len(ask.tools)} tool schemas) and the reply take {wanted} tokens, "
                f"the model has {held}: {wanted - held} too many"
            )
        # later an error is about one conversation, which may hold any words
        fresh = not self._served and all(message["role"] != "assistant" for message in ask.messages)
        if fresh and ask.tools and "tool" in lower:
            return CoevolveError(
                f"endpoint {self.shown}: {model} is served without tool support ({words[:200]}); for vLLM start it "
                "with --enable-auto-tool-choice --tool-call-parser hermes"
            )
        if status == 404 or (fresh and any(said in lower for said in UNKNOWN_MODEL)):
            known = self.models()
            offered = f"it has: {', '.join(known)}" if known else words[:200]
            return CoevolveError(f"endpoint {self.shown}: no model {model!r}; {offered}; correct endpoint.model")
        return Rejected(f"HTTP {status}: {words}"[:300])

    def _words(self, text: str, limit: int = 200) -> str:
        """The server's error text as one line, without the key."""
        return one_line(self.clean(writable(text[:LOOKED_AT])), limit)


def _unsupported(text: str) -> bool:
    words = ("unsupported", "not support", "unexpected", "unknown", "unrecognized", "extra inputs", "not permitted")
    return any(word in text for word in words)


def _text(content: Any) -> str:
    """The text of a content, which is text, null or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    if content is not None and not isinstance(content, str):
        raise TypeError
    return content or ""


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {})


def _detail(response: Response) -> str:
    """The server's error text."""
    try:
        value = loads(response.body)
    except ValueError:
        return response.text
    for name in ("error", "detail", "message"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value)


def _counted(count: Any, least: int, reserved: int) -> int:
    """The server's ``count`` of tokens. A missing or impossible count becomes the ``reserved`` number."""
    right = isinstance(count, int | float) and not isinstance(count, bool) and least <= count <= MOST
    return int(count) if right else reserved


def _retry_after(header: str | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110: a number, or a date)."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(seconds, 0.0)


def _overflow(words: str, reply: int) -> tuple[int, int] | None:
    """(context, wanted tokens) of a refusal such as vLLM's and OpenAI's, "maximum context length is 4096 tokens ..."."""
    found = re.search(r"context length (?:is|of) (\d{1,9})\b", words)
    if not found:
        return None
    held = int(found[1])
    if prompt := re.search(r"\b(\d{1,9}) input tokens", words):
        return held, int(prompt[1]) + reply
    larger = [int(number) for number in re.findall(r"\b\d{1,9}\b", words) if int(number) > held]
    return held, max(larger, default=held + 1)

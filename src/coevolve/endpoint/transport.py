"""One request over HTTP, and what its failure means: passing, final for this request, or final for all.

By httpx and not by the `openai` client: each attempt is paid for from the budget and has a seed of its own, so retries cannot be
the client's; what a failure means would be sorted out here all the same, and the environment could add headers to a request.
"""

import email.utils
import json
import os
import re
import time
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.messages import Answer, Ask, RawCall

PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
# fields that some servers do not take, and what they are called there (None: leave them out)
OPTIONAL: dict[str, str | None] = {
    "response_format": None,
    "seed": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
}
UNKNOWN_MODEL = ("server is pinned to", "does not exist", "model not found", "model_not_found", "no such model")


class Passing(Exception):
    """May work when it is tried again; ``wait`` is what the server asked for, in seconds; ``heard``: it said something."""

    def __init__(self, reason: str, wait: float | None = None, heard: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.heard = heard


class Rejected(Exception):
    """The server will not answer this request, however often it is sent."""


def key_of(variable: str) -> str | None:
    """The key that the environment variable holds, if it is set."""
    return os.environ.get(variable) or None


class Transport:
    """Sends requests to ``url``. The key is in the header that is sent, and nowhere else: errors are cleaned of it."""

    def __init__(self, url: str, key: str | None, timeout: float, connections: int) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        self.shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._key = key
        self._without: set[str] = set()  # optional fields that this server does not take
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    def close(self) -> None:
        self._client.close()

    def models(self) -> list[str]:
        """Names of the models that the server offers; empty if it does not say."""
        try:
            response = self._client.get(f"{self._url}/models")
            return [str(one["id"]) for one in response.json()["data"]]
        except httpx.ConnectError as error:
            raise CoevolveError(
                f"endpoint {self.shown}: unreachable ({self._clean(str(error))}); start the server, or mend endpoint.url"
            ) from None
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return []

    def send(self, model: str, ask: Ask, seed: int) -> Answer:
        """One answer; raises Passing, Rejected, and CoevolveError where no request would be answered."""
        while True:
            body = self._body(model, ask, seed)
            try:
                response = self._client.post(f"{self._url}/chat/completions", json=body)
            except httpx.TimeoutException:
                raise Passing(f"no reply within {self._client.timeout.read:g} s") from None
            except httpx.HTTPError as error:
                raise Passing(f"{type(error).__name__}: {self._clean(str(error))}") from None
            if response.status_code == 200:
                return self._answer(response)
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

    def _adapt(self, response: httpx.Response, body: dict[str, Any]) -> bool:
        """Whether the server complains of an optional field, which the next attempt does without."""
        if response.status_code not in (400, 422):
            return False
        text = response.text.lower()
        named = {
            field for field in OPTIONAL if field in body and re.search(rf"\b{field}\b", text) and _unsupported(text)
        }
        self._without |= named
        return bool(named)

    def _answer(self, response: httpx.Response) -> Answer:
        text = response.text.replace(self._key, "***") if self._key else response.text
        try:
            value = json.loads(text)
            choice = value["choices"][0]
            message = choice["message"]
            usage = value.get("usage") or {}
            return Answer(
                content=_text(message.get("content")),
                calls=[
                    RawCall(str(call["function"]["name"]), _arguments(call["function"].get("arguments")))
                    for call in message.get("tool_calls") or []
                ],
                finish_reason=str(choice.get("finish_reason") or "stop"),
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                completion_tokens=int(usage.get("completion_tokens") or 0),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise Passing(f"a reply that is no chat completion: {self._clean(text)[:80]!r}", heard=True) from None

    def _failure(self, response: httpx.Response, model: str, ask: Ask) -> Exception:
        """What the status and the server's words mean."""
        status, words = response.status_code, self._clean(_detail(response))
        if status in PASSING:
            return Passing(f"HTTP {status}: {words}"[:200], _retry_after(response), heard=True)
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
        if ask.tools and "tool" in lower:
            return CoevolveError(
                f"endpoint {self.shown}: {model} is served without tool support ({words[:200]}); for vLLM start it "
                "with --enable-auto-tool-choice --tool-call-parser hermes"
            )
        if status == 404 or any(said in lower for said in UNKNOWN_MODEL):
            known = self.models()
            offered = f"it has: {', '.join(known)}" if known else words[:200]
            return CoevolveError(f"endpoint {self.shown}: no model {model!r}; {offered}; mend endpoint.model")
        return Rejected(f"HTTP {status}: {words}"[:300])

    def _clean(self, text: str) -> str:
        """One line, without the key."""
        line = " ".join(text.split())
        return line.replace(self._key, "***") if self._key else line


def _unsupported(text: str) -> bool:
    words = ("unsupported", "not support", "unexpected", "unknown", "unrecognized", "extra inputs", "not permitted")
    return any(word in text for word in words)


def _text(content: Any) -> str:
    """Content is text, nothing, or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    if content is not None and not isinstance(content, str):
        raise TypeError
    return content or ""


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {})


def _detail(response: httpx.Response) -> str:
    """The server's own words."""
    try:
        value = response.json()
    except ValueError:
        return response.text
    for name in ("error", "detail", "message"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds of a Retry-After header (RFC 9110: a number, or a date)."""
    header = response.headers.get("retry-after")
    if header is None:
        return None
    try:
        return max(float(header), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(header).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return None


def _overflow(words: str, reply: int) -> tuple[int, int] | None:
    """(context, wanted tokens) of a refusal such as vLLM's and OpenAI's, "maximum context length is 4096 tokens ..."."""
    found = re.search(r"context length (?:is|of) (\d+)", words)
    if not found:
        return None
    held = int(found[1])
    if prompt := re.search(r"(\d+) input tokens", words):
        return held, int(prompt[1]) + reply
    larger = [int(number) for number in re.findall(r"\d+", words) if int(number) > held]
    return held, max(larger, default=held + 1)

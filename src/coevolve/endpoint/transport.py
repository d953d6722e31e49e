"""A request to an OpenAI-compatible server, and the meaning of its failure: temporary, final for this request, or final for all.

The `openai` client sends each request once: each attempt takes from the budget and has its own seed. Only this module imports it,
because the import takes a second.
"""

import email.utils
import json
import math
import os
import re
import time
from contextlib import closing
from typing import Any

import httpx2
import openai

from coevolve.core.errors import CoevolveError
from coevolve.core.untrusted import loads, one_line
from coevolve.endpoint.config import EndpointSection
from coevolve.endpoint.messages import Answer, Ask, Failed, Passing, RawCall

LONGEST = 8 * 2**20  # most bytes of a decompressed reply
CONNECT = 10.0  # seconds to connect to a server
HIDDEN = "***"
SHORTEST = 8  # fewest characters of a key; a shorter value is a placeholder (EMPTY, none) for a server without keys
BROKEN = (openai.OpenAIError, OSError, ValueError, RuntimeError)  # raised by a request that gets no whole reply
PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
# fields that some servers reject, and their names there (None: omit the field)
OPTIONAL: dict[str, str | None] = {
    "response_format": None,
    "seed": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
}
UNSUPPORTED = ("unsupported", "not support", "unexpected", "unknown", "unrecognized", "extra inputs", "not permitted")
FINISHED = ("stop", "length", "tool_calls", "function_call", "content_filter")
MOST = 10**9  # most tokens of a prompt or a reply; larger counts are treated as missing
MODELS = 50  # names of models that an error lists
DETAIL = 2000  # characters of a server's error to read
UNKNOWN_MODEL = ("server is pinned to", "does not exist", "model not found", "model_not_found", "no such model")


def key_of(variable: str) -> str | None:
    """The key in the environment variable, if it is set. A key that no header can hold is a CoevolveError."""
    key = os.environ.get(variable) or None
    if key is not None and not all("!" <= sign <= "~" for sign in key):
        raise CoevolveError(
            f"{variable} holds white space, a control character or a letter beyond ASCII (a newline at its end?), which no "
            "key has; set it again without that"
        )
    return key


class _WholeReplies(openai.DefaultHttpxClient):
    """Reads each reply within ``timeout.read`` seconds and LONGEST bytes. It follows no redirect, which would get the key."""

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The complete reply. httpx limits the seconds of a single read, and the loop those of a server that sends single bytes."""
        until, body = time.monotonic() + (self.timeout.read or 0.0), bytearray()
        with closing(super().send(request, **{**options, "stream": True, "follow_redirects": False})) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > LONGEST:
                    raise Passing(f"a reply of more than {LONGEST // 2**20} MB", heard=True)
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout("the reply is late")
        after = {name: value for name, value in response.headers.items() if name == "retry-after"}
        return httpx2.Response(response.status_code, headers=after, content=bytes(body), request=request)


class Transport:
    """Sends requests to ``config.url``. The key appears only in the sent header: ``clean`` removes it from values."""

    def __init__(self, config: EndpointSection) -> None:
        self.url = config.url
        self._seconds = config.timeout
        self._key = key_of(config.key)
        self._headers = {} if self._key else {"Authorization": openai.omit}
        self._without: set[str] = set()  # optional fields that this server rejects
        self._served = False  # whether it has answered a request
        timeout = openai.Timeout(config.timeout, connect=min(config.timeout, CONNECT))
        try:
            http = _WholeReplies(timeout=timeout)
            self._client = openai.OpenAI(
                api_key=self._key or "none", base_url=self.url, max_retries=0, timeout=timeout, http_client=http
            )
        except (httpx2.InvalidURL, ValueError, ImportError):
            raise CoevolveError(
                "endpoint.url or the proxy in the environment variables cannot be used; correct the URL, or correct or unset "
                "HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
            ) from None

    def close(self) -> None:
        """End open requests."""
        self._client.close()

    def models(self) -> list[str]:
        """Names of the models that the server offers; empty if it does not list them."""
        try:
            listed = self._client.models.with_raw_response.list(extra_headers=self._headers)
            return [self._words(str(model["id"]), 100) for model in loads(listed.content)["data"][:MODELS]]
        except (*BROKEN, Passing, KeyError, TypeError) as error:
            if isinstance(error.__cause__, httpx2.ConnectError):
                raise CoevolveError(
                    f"endpoint {self.url}: unreachable ({self._cause(error)}); start the server, or correct endpoint.url"
                ) from None
            return []

    def send(self, model: str, ask: Ask, seed: int) -> Answer:
        """The answer. Raises Passing, Failed, or CoevolveError if the server would answer no request."""
        while True:
            body = self._body(model, ask, seed)
            try:
                reply = self._client.chat.completions.with_raw_response.create(**body, extra_headers=self._headers)
                answer = self._answer(reply.content, ask)
                self._served = True
                return answer
            except openai.APITimeoutError:
                raise Passing(f"no whole reply within {self._seconds:g} s") from None
            except openai.APIStatusError as error:
                if not self._adapt(error.response, body):
                    raise self._failure(error.response, model, ask) from None
            except BROKEN as error:
                raise Passing(self._cause(error)) from None

    def clean(self, value: Any) -> Any:
        """A JSON value in which HIDDEN replaces the key."""
        if self._key is None or len(self._key) < SHORTEST:
            return value
        if isinstance(value, str):
            return value.replace(self._key, HIDDEN)
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean(item) for name, item in value.items()}
        return value

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

    def _adapt(self, response: httpx2.Response, body: dict[str, Any]) -> bool:
        """Whether the server rejects an optional field. The next attempt omits that field."""
        text = response.text.lower()
        if response.status_code not in (400, 422) or not any(word in text for word in UNSUPPORTED):
            return False
        named = {field for field in OPTIONAL if field in body and re.search(rf"\b{field}\b", text)}
        self._without |= named
        return bool(named)

    def _answer(self, body: bytes, ask: Ask) -> Answer:
        try:
            value = self.clean(loads(body))
            choice = value["choices"][0]
            message = choice["message"]
            calls = [
                RawCall(_text(call["function"]["name"]), _arguments(call["function"].get("arguments")))
                for call in message.get("tool_calls") or []
            ]
            content = _text(message.get("content"))
            thought = message.get("reasoning_content") or message.get("reasoning")
            if not content and not calls and isinstance(thought, str):  # a call may stand in it
                content = f"<think>\n{thought}\n</think>"
            finish = choice.get("finish_reason")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            words = self._words(body.decode("utf-8", "replace"), 80)
            raise Passing(f"a reply that is no chat completion: {words!r}", heard=True) from None
        usage = value.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        return Answer(
            content=content,
            calls=calls,
            finish_reason=finish if finish in FINISHED else "stop",
            prompt_tokens=_counted(counts.get("prompt_tokens"), 1, ask.prompt_tokens()),
            completion_tokens=_counted(counts.get("completion_tokens"), int(bool(content or calls)), ask.max_tokens),
        )

    def _failure(self, response: httpx2.Response, model: str, ask: Ask) -> Exception:
        """The exception for the status and the server's error text."""
        status, words = response.status_code, self._words(_detail(response), DETAIL)
        if status in PASSING:
            return Passing(f"HTTP {status}: {words}"[:200], _seconds(response.headers.get("retry-after")), heard=True)
        if status in (401, 403):
            return CoevolveError(
                f"endpoint {self.url}: the key is refused (HTTP {status}); set the environment variable that "
                "endpoint.key names"
            )
        lower = words.lower()
        if (overflow := _overflow(words, ask.max_tokens)) is not None:
            held, wanted = overflow
            return Failed(
                f"context too long: the prompt (with {len(ask.tools)} tool schemas) and the reply take {wanted} tokens, "
                f"the model has {held}: {wanted - held} too many",
                final=True,
            )
        # later an error is about one conversation, which may hold any words
        fresh = not self._served and all(message["role"] != "assistant" for message in ask.messages)
        if fresh and ask.tools and "tool" in lower:
            return CoevolveError(
                f"endpoint {self.url}: {model} is served without tool support ({words[:200]}); for vLLM start it "
                "with --enable-auto-tool-choice --tool-call-parser hermes"
            )
        if status == 404 or (fresh and any(phrase in lower for phrase in UNKNOWN_MODEL)):
            known = self.models()
            offered = f"it has: {', '.join(known)}" if known else words[:200]
            return CoevolveError(f"endpoint {self.url}: no model {model!r}; {offered}; correct endpoint.model")
        return Failed(f"HTTP {status}: {words}"[:300], final=True)

    def _cause(self, error: Exception) -> str:
        cause = error.__cause__ or error
        return self._words(f"{type(cause).__name__}: {cause}")

    def _words(self, text: str, limit: int = 200) -> str:
        """The server's error text as one line, without the key."""
        return one_line(self.clean(text), limit)


def _text(content: Any) -> str:
    """The text of a content, which is text, null or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    if content is not None and not isinstance(content, str):
        raise TypeError
    return content or ""


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {})


def _detail(response: httpx2.Response) -> str:
    """The server's error text."""
    try:
        value = loads(response.content)
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


def _seconds(header: str | None) -> float | None:
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

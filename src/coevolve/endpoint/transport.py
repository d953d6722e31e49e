"""A request to an OpenAI-compatible server, and the meaning of its failure: temporary, final for this request, or final for all.

The `openai` client sends each request once: each attempt takes from the budget and has its own seed. client.py pauses and
sends it again (``Endpoint._send``). Only this module imports `openai`, because the import takes a second.
"""

import json
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
from coevolve.endpoint.messages import Answer, Ask, Failed, RawCall
from coevolve.endpoint.secret import Secret

LONGEST = 8 * 2**20  # most bytes of a decompressed reply
BROKEN = (openai.OpenAIError, OSError, ValueError, RuntimeError)  # raised by a request that gets no whole reply
# fields that some servers reject, and their names there (None: omit the field)
OPTIONAL = {"response_format": None, "seed": None, "temperature": None, "max_tokens": "max_completion_tokens"}
UNSUPPORTED = (
    *("support", "unexpected", "unknown", "unrecogni", "extra inputs", "not permitted", "not allowed"),
    *("deprecated", "invalid param"),
)
ORDINARY = {"role", "content", "tool_calls", "tool_call_id"}  # fields of messages that all servers take
EMPTY = {
    "properties": "parameters",
    "required": "required",
}  # empty parts of a schema, and what to omit if they are refused
# how servers say that they serve a model without tools: vLLM, llama.cpp, Ollama, OpenRouter, and hosted ones
NO_TOOLS = re.compile(
    r"enable-auto-tool-choice|requires? --jinja|found that support tool"
    r"|(?:not|n't) support (?:parameters: )?\W*(?:tool|function)"
    r"|\b(?:tool|function)s?(?:[ _-](?:use|call\w*))?\W{1,2}(?:is|are) (?:not |un)(?:support|enabl|availab)"
)
ENDS = {"max_tokens": "length", "model_length": "length"}  # other names of OpenAI's reasons for an end
FILTERS = ("filter", "safety", "recitation", "prohibited", "blocklist", "guardrail")  # in the reason of a cut reply
MOST = 10**9  # most tokens of a prompt or a reply; larger counts are treated as missing
MODELS = 50  # names of models that an error lists
PINNED = "server is pinned to"  # `transformers serve` refuses another model with 400; others answer 404


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

    secret = Secret("")

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The complete reply. httpx limits the seconds of a single read, and the loop those of a server that sends single bytes."""
        until, body = time.monotonic() + (self.timeout.read or 0.0), bytearray()
        with closing(super().send(request, **{**options, "stream": True, "follow_redirects": False})) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > LONGEST:
                    raise Failed(f"a reply of more than {LONGEST // 2**20} MB")
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout(f"no whole reply within {self.timeout.read:g} s")
        after = {name: value for name, value in response.headers.items() if name == "retry-after"}
        content = self.secret.hide_reply(bytes(body))
        return httpx2.Response(response.status_code, headers=after, content=content, request=request)


class Transport:
    """Sends requests to ``config.url``. The key appears only in the sent header: ``secret`` hides it in texts."""

    def __init__(self, config: EndpointSection) -> None:
        self.url = config.url
        key = key_of(config.key)
        self.secret = Secret(key or "")
        self._headers = {} if key else {"Authorization": openai.omit}
        self._without: set[str] = set()  # optional fields, also of messages and tools, that this server rejects
        self._served = False  # whether it has answered a request
        timeout = openai.Timeout(config.timeout, connect=min(config.timeout, 10.0))
        try:
            http = _WholeReplies(timeout=timeout)
            http.secret = self.secret
            self._client = openai.OpenAI(
                api_key=key or "none", base_url=self.url, max_retries=0, timeout=timeout, http_client=http
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
            return [one_line(str(model["id"]), 100) for model in loads(listed.content)["data"][:MODELS]]
        except (*BROKEN, Failed, KeyError, TypeError) as error:
            if isinstance(error.__cause__, httpx2.ConnectError):
                raise CoevolveError(
                    f"endpoint {self.url}: unreachable ({self._cause(error)}); start the server, or correct endpoint.url"
                ) from None
            return []

    def send(self, model: str, ask: Ask, seed: int) -> Answer:
        """The answer. Raises Failed, or CoevolveError if the server would answer no request."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [_kept(message, self._without) for message in ask.messages],
            "temperature": ask.temperature,
            "max_tokens": ask.max_tokens,
            "seed": seed % 2**31,
        }
        if ask.tools:
            body["tools"] = [self._offered(tool) for tool in ask.tools]
        if ask.schema is not None:
            schema = {"name": "reply", "schema": ask.schema, "strict": False}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for name in self._without & set(body) & set(OPTIONAL):
            value, other = body.pop(name), OPTIONAL[name]
            if other:
                body[other] = value
        try:
            reply = self._client.chat.completions.with_raw_response.create(**body, extra_headers=self._headers)
            answer = _answer(reply.content, ask)
            self._served = True
            return answer
        except openai.APIStatusError as error:
            if error.status_code in (400, 422) and (rejected := _rejected(error.response.text.lower(), body)):
                self._without |= rejected
                return self.send(model, ask, seed)
            raise self._failure(error, model, ask) from None
        except BROKEN as error:
            raise Failed(self._cause(error), heard=False) from None

    def _offered(self, tool: dict[str, Any]) -> dict[str, Any]:
        """``tool`` as this server takes it."""
        parameters = {"type": "object", "properties": {}, **tool["function"].get("parameters", {})}
        rejected = {EMPTY[part] for part in EMPTY if not parameters.get(part)} & self._without
        return {**tool, "function": _kept({**tool["function"], "parameters": _kept(parameters, rejected)}, rejected)}

    def _failure(self, error: openai.APIStatusError, model: str, ask: Ask) -> Exception:
        """The exception for the status and the server's error text."""
        status, message = error.status_code, error.body.get("message") if isinstance(error.body, dict) else None
        words = one_line(message if isinstance(message, str) else error.message, 2000)
        lower = words.lower()
        # later an error is about one conversation, which may hold any words
        fresh = not self._served and all(message["role"] != "assistant" for message in ask.messages)
        if fresh and ask.tools and NO_TOOLS.search(lower):
            return CoevolveError(
                f"endpoint {self.url}: {model} is served without tool support ({words[:200]}); for vLLM start it "
                "with --enable-auto-tool-choice --tool-call-parser hermes"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            return Failed(f"HTTP {status}: {words}"[:200], wait=_seconds(error.response.headers.get("retry-after")))
        if status in (401, 403):
            return CoevolveError(
                f"endpoint {self.url}: the key is refused (HTTP {status}: {words[:200]}); set the environment variable that "
                "endpoint.key names"
            )
        if "context length" in lower:
            return Failed(f"context too long, with {len(ask.tools)} tool schemas: {words}"[:300], final=True)
        if status == 404 or (fresh and PINNED in lower):
            known = self.models()
            offered = f"it has: {', '.join(known)}" if known else words[:200]
            return CoevolveError(f"endpoint {self.url}: no model {model!r}; {offered}; correct endpoint.model")
        return Failed(f"the server refuses the request (HTTP {status}): {words}"[:400], final=True)

    def _cause(self, error: Exception) -> str:
        cause = error.__cause__ or error
        return one_line(self.secret.hide(f"{type(cause).__name__}: {cause}"))


def _kept(fields: dict[str, Any], rejected: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in rejected}


def _rejected(text: str, body: dict[str, Any]) -> set[str]:
    """The fields of ``body`` without which the request may succeed, by the server's refusal ``text`` in small letters."""
    extra = {name for message in body["messages"] for name in message} - ORDINARY
    rejected = {name for name in extra if name in text}
    if any(word in text for word in UNSUPPORTED):
        rejected |= {name for name in OPTIONAL if name in body and name in text}
    schemas = [tool["function"].get("parameters", {}) for tool in body.get("tools", ())]
    refused = [part for part in EMPTY if part in text and any(schema.get(part, True) in ({}, []) for schema in schemas)]
    return rejected | {EMPTY[part] for part in refused}


def _answer(body: bytes, ask: Ask) -> Answer:
    try:
        value = loads(body)
        choice = value["choices"][0]
        message = choice["message"]
        calls = [
            RawCall(_text(call["function"]["name"]), _text(call["function"].get("arguments")) or "{}")
            for call in message.get("tool_calls") or []
        ]
        content, thought = _words(message.get("content"))
        content = content or _text(message.get("refusal"))
        thought = _text(message.get("reasoning_content") or message.get("reasoning")) or thought
        finish = _text(choice.get("finish_reason")) or "stop"
        usage = value.get("usage")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        words = one_line(body.decode("utf-8", "replace"), 80)
        raise Failed(f"a reply that is no chat completion: {words!r}") from None
    if not content and not calls and thought:  # a call may stand in it
        content = f"<think>\n{thought}\n</think>"
    if finish == "error":  # of a gateway whose model's server broke off
        raise Failed(f"the server broke off the reply: {one_line(_text(choice.get('error')) or content)!r}")
    filtered = any(word in finish.lower() for word in FILTERS)
    finish = "content_filter" if filtered else ENDS.get(finish.lower(), finish)
    counts = usage if isinstance(usage, dict) else {}
    prompt = _counted(counts.get("prompt_tokens"), 1, ask.prompt_tokens())
    completion = _counted(counts.get("completion_tokens"), int(bool(content or calls)), ask.max_tokens)
    kept = {key: field for key, field in message.items() if key == "content" or field not in (None, [])}
    return Answer(content, calls, finish, prompt, completion, {**kept, "role": "assistant"})


def _words(content: Any) -> tuple[str, str]:
    """The words and the thoughts of a message's content: a text, or parts as some servers send them."""
    if not isinstance(content, list):
        return _text(content), ""
    parts = [part if isinstance(part, dict) else {"text": _text(part)} for part in content]
    thoughts = [_words(part["thinking"])[0] for part in parts if "thinking" in part]
    words = [_text(part.get("text", part)) for part in parts if "thinking" not in part]
    return "".join(words), "".join(thoughts)


def _text(value: Any) -> str:
    """A text of a reply. Some servers send null, parts, or arguments that are no text."""
    return value if isinstance(value, str) else json.dumps(value) if value else ""


def _counted(count: Any, least: int, reserved: int) -> int:
    """The server's ``count`` of tokens. A missing or impossible count becomes the ``reserved`` number."""
    right = isinstance(count, int | float) and not isinstance(count, bool) and least <= count <= MOST
    return int(count) if right else reserved


def _seconds(header: str | None) -> float | None:
    """The seconds of a Retry-After header. Servers of models send a number, and not the date that RFC 9110 also allows."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if seconds >= 0 else None

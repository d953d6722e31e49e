"""A model server behind httpx2's own door: no socket, and a share of the replies breaks as it does with real servers."""

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx2

from tests.waiting import PATIENCE

FAULTS = ("429", "500", "reset", "stall", "truncated", "schema")
STALL = 0.2  # seconds until a stalled reply counts as late
Scripted = tuple[int, dict[str, str], str | bytes | httpx2.SyncByteStream]  # status, headers, body


class Proxy:
    """Forwards requests to ``upstream``. The first replies are those of ``script``.

    Then ``share`` of the requests meet a fault, of all kinds in turn. ``delivered`` counts the replies that arrived whole,
    ``faults`` the others by kind. ``replies`` keeps upstream's replies by request. Upstream is not asked for those in ``known``.
    """

    url = "http://proxy.test/v1"

    def __init__(
        self, upstream: str, share: float, script: Sequence[Scripted], known: dict[bytes, httpx2.Response]
    ) -> None:
        self._upstream = upstream.removesuffix("/v1")
        self._share = share
        self._known = known
        self._rng = random.Random(1)
        self._kinds = itertools.cycle(FAULTS)
        self._lock = threading.Lock()
        self.script = list(script)
        self.delivered = 0
        self.replies: dict[bytes, httpx2.Response] = {}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx2.Headers] = []
        self.faults: dict[str, int] = dict.fromkeys(FAULTS, 0)

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(501)
        body = request.read()
        with self._lock:
            self.bodies.append(json.loads(body))
            self.headers.append(request.headers)
            scripted = self.script.pop(0) if self.script else None
            fault = next(self._kinds) if scripted is None and self._rng.random() < self._share else None
        if scripted is not None:
            status, headers, content = scripted
            if isinstance(content, httpx2.SyncByteStream):
                return httpx2.Response(status, headers=headers, stream=content)
            return httpx2.Response(status, headers=headers, content=content)
        if fault is not None:
            return self._fault(fault, request.url.path, body)
        reply = self._asked(request.url.path, body)
        with self._lock:
            self.delivered += reply.status_code == 200
        return httpx2.Response(reply.status_code, content=reply.content)

    def _fault(self, kind: str, path: str, body: bytes) -> httpx2.Response:
        self.faults[kind] += 1
        if kind == "429":
            return httpx2.Response(429, headers={"Retry-After": "0.05"}, json={"error": {"message": "slow down"}})
        if kind == "500":
            return httpx2.Response(500, text="Internal Server Error")
        if kind == "reset":
            raise httpx2.ReadError("connection reset")
        if kind == "stall":
            time.sleep(STALL)
            raise httpx2.ReadTimeout("no reply")
        if kind == "truncated":
            return httpx2.Response(200, content=self._asked(path, body).content[:-20])
        return httpx2.Response(200, json={"object": "chat.completion", "choices": []})

    def _asked(self, path: str, body: bytes) -> httpx2.Response:
        if body not in self.replies:
            self.replies[body] = self._known.get(body) or httpx2.post(
                self._upstream + path, content=body, headers={"Content-Type": "application/json"}, timeout=PATIENCE
            )
        return self.replies[body]


@contextmanager
def proxy(
    upstream: str = "",
    share: float = 0.0,
    script: Sequence[Scripted] = (),
    known: dict[bytes, httpx2.Response] | None = None,
) -> Iterator[Proxy]:
    """A proxy that answers every request of an endpoint until the end of the block."""
    server = Proxy(upstream, share, script, known or {})
    sent = httpx2.HTTPTransport.handle_request

    def handle(transport: httpx2.HTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return server.handle(request) if request.url.host == "proxy.test" else sent(transport, request)

    with patch.object(httpx2.HTTPTransport, "handle_request", handle):
        yield server

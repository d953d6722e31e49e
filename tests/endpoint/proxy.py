"""A model server behind httpx's own door: no socket, and a share of the replies breaks as it does with real servers."""

import asyncio
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx

from tests.waiting import PATIENCE

FAULTS = ("429", "500", "reset", "stall", "truncated", "schema")
STALL = 60.0  # seconds
Scripted = tuple[int, dict[str, str], str | bytes | httpx.AsyncByteStream]  # status, headers, body


class Proxy:
    """Forwards requests to ``upstream``. The first replies are those of ``script``.

    Then ``share`` of the requests meet a fault, of all kinds in turn. ``delivered`` counts the replies that arrived whole,
    ``faults`` the others by kind. ``replies`` keeps upstream's replies by request. Upstream is not asked for those in ``known``.
    """

    url = "http://proxy.test/v1"

    def __init__(
        self, upstream: str, share: float, script: Sequence[Scripted], known: dict[bytes, httpx.Response]
    ) -> None:
        self._upstream = upstream.removesuffix("/v1")
        self._share = share
        self._known = known
        self._rng = random.Random(1)
        self._kinds = itertools.cycle(FAULTS)
        self._client = httpx.Client(timeout=PATIENCE)
        self.script = list(script)
        self.delivered = 0
        self.replies: dict[bytes, httpx.Response] = {}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []
        self.faults: dict[str, int] = dict.fromkeys(FAULTS, 0)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(501)
        body = await request.aread()
        self.bodies.append(json.loads(body))
        self.headers.append(request.headers)
        if self.script:
            status, headers, content = self.script.pop(0)
            if isinstance(content, httpx.AsyncByteStream):
                return httpx.Response(status, headers=headers, stream=content)
            return httpx.Response(status, headers=headers, content=content)
        if self._rng.random() < self._share:
            return await self._fault(next(self._kinds), request.url.path, body)
        reply = await self._asked(request.url.path, body)
        self.delivered += reply.status_code == 200
        return httpx.Response(reply.status_code, content=reply.content)

    async def _fault(self, kind: str, path: str, body: bytes) -> httpx.Response:
        self.faults[kind] += 1
        if kind == "429":
            return httpx.Response(429, headers={"Retry-After": "0.05"}, json={"error": {"message": "slow down"}})
        if kind == "500":
            return httpx.Response(500, text="Internal Server Error")
        if kind == "reset":
            raise httpx.ReadError("connection reset")
        if kind == "stall":
            await asyncio.sleep(STALL)
        if kind == "truncated":
            return httpx.Response(200, content=(await self._asked(path, body)).content[:-20])
        return httpx.Response(200, json={"object": "chat.completion", "choices": []})

    async def _asked(self, path: str, body: bytes) -> httpx.Response:
        if body not in self.replies:
            known = self._known.get(body)
            self.replies[body] = known or await asyncio.to_thread(
                self._client.post, self._upstream + path, content=body, headers={"Content-Type": "application/json"}
            )
        return self.replies[body]


@contextmanager
def proxy(
    upstream: str = "",
    share: float = 0.0,
    script: Sequence[Scripted] = (),
    known: dict[bytes, httpx.Response] | None = None,
) -> Iterator[Proxy]:
    """A proxy that answers every request of an endpoint until the end of the block."""
    server = Proxy(upstream, share, script, known or {})
    with patch.object(httpx.AsyncHTTPTransport, "handle_async_request", server.handle):
        yield server

"""No server holds a request longer than a reply may take, or sends more than a reply may hold."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import Exhausted, Failed
from tests.endpoint.proxy import proxy
from tests.endpoint.test_client import GOOD, ask, endpoint
from tests.waiting import PATIENCE, until


class Slow(httpx.AsyncByteStream):
    """Sends ``body`` in single bytes, so that no read is late."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.asked = threading.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.asked.set()
        for byte in self._body:
            await asyncio.sleep(0.05)
            yield bytes([byte])


class Large(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 2**20


def test_the_timeout_limits_the_whole_reply(tmp_path: Path) -> None:
    with proxy(script=[(200, {}, Slow(GOOD.encode()))]) as server:
        client = endpoint(server.url, tmp_path, timeout=0.5, retries=0)
        with pytest.raises(CoevolveError, match=r"no whole reply within 0\.5 s"):
            client.chat(ask())
        client.close()


def test_a_reply_has_a_largest_size(tmp_path: Path) -> None:
    with proxy(script=[(200, {}, Large())]) as server:
        client = endpoint(server.url, tmp_path, retries=0)
        with pytest.raises(Failed, match="a reply of more than 8 MB"):
            client.chat(ask())
        client.close()


def test_closing_ends_open_requests_and_pauses(tmp_path: Path) -> None:
    silent = Slow(b" " * 10**6)
    for script in ((200, {}, silent), (429, {"Retry-After": "590"}, "{}")):
        with proxy(script=[script]) as server, ThreadPoolExecutor(1) as pool:
            client = endpoint(server.url, tmp_path, timeout=2.0, retries=3)
            waiting = pool.submit(client.chat, ask())
            until(lambda server=server: server.bodies, "no request comes")
            client.close()
            assert isinstance(waiting.exception(PATIENCE), Exhausted | Failed | CoevolveError)

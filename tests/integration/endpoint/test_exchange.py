"""No server holds a request longer than a reply may take, or sends more than a reply may hold."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import Exhausted, Failed
from tests.integration.endpoint.proxy import proxy
from tests.integration.endpoint.test_client import GOOD, ask, endpoint
from tests.waiting import PATIENCE, until


class Slow(httpx.SyncByteStream):
    """Sends ``body`` in single bytes, so that no read is late."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for byte in self._body:
            time.sleep(0.01)
            yield bytes([byte])


class Large(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
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


def test_closing_ends_pauses_and_waits_for_open_replies(tmp_path: Path) -> None:
    scripts = {"waits": (429, {"Retry-After": "590"}, "{}"), "replies": (200, {}, Slow(GOOD.encode()))}
    for kind, script in scripts.items():
        with proxy(script=[script]) as server, ThreadPoolExecutor(1) as pool:
            client = endpoint(server.url, tmp_path / kind, retries=3)
            waiting = pool.submit(client.chat, ask())
            until(lambda server=server: server.bodies, "no request comes")
            client.close()
            if kind == "waits":
                assert isinstance(waiting.exception(PATIENCE), Exhausted)
            else:
                assert waiting.result(PATIENCE).content == "yes"

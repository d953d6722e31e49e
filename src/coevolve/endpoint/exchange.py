"""One HTTP request and its whole reply, bounded in seconds and in bytes, whatever the server does.

httpx limits the seconds of a single read, so that a server which sends a byte now and then is never late. Here an event loop of
its own carries the requests, and one deadline ends name lookup, handshake, header and body together. It counts running time
(see ``core.deadline``). Threads wait for it.
"""

import asyncio
import threading
import zlib
from concurrent.futures import CancelledError
from dataclasses import dataclass

import httpx

from coevolve.core.deadline import within
from coevolve.core.errors import CoevolveError

LONGEST = 8 * 2**20  # bytes of a reply, decompressed
CONNECT = 10.0  # seconds to find a server


class Lost(Exception):
    """No whole reply. ``heard``: the server said something, but nothing that is of use."""

    def __init__(self, reason: str, heard: bool = False) -> None:
        super().__init__(reason)
        self.heard = heard


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    retry_after: str | None

    @property
    def text(self) -> str:
        """JSON is UTF-8 (RFC 8259), whatever character set the header names."""
        return self.body.decode("utf-8", "replace")


class Exchange:
    """``send`` from many threads; ``close`` ends what is on its way. Redirects are not followed: they would get the key."""

    def __init__(self, seconds: float, connections: int, headers: dict[str, str]) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=min(seconds, CONNECT)),
                # other encodings are decoded in one piece, however long it gets
                headers={**headers, "Accept-Encoding": "gzip"},
                limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            )
        except (httpx.InvalidURL, ValueError, ImportError):
            raise CoevolveError(
                "a proxy that the environment names cannot be used; mend or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
            ) from None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def send(self, method: str, url: str, content: bytes | None = None) -> Response:
        """The whole reply, or Lost."""
        with self._lock:
            if self._closed:
                raise Lost("the endpoint is closed")
            future = asyncio.run_coroutine_threadsafe(self._exchange(method, url, content), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Lost("the endpoint is closed") from None
        except BaseException:
            future.cancel()  # after Ctrl-C nobody waits for it
            raise

    async def _exchange(self, method: str, url: str, content: bytes | None) -> Response:
        headers = {"Content-Type": "application/json"} if content is not None else {}
        asked = self._client.stream(method, url, content=content, headers=headers)
        try:
            async with within(self._seconds), asked as response:
                return Response(response.status_code, await _body(response), response.headers.get("retry-after"))
        except (TimeoutError, httpx.TimeoutException):
            raise Lost(f"no whole reply within {self._seconds:g} s") from None
        except asyncio.CancelledError:
            raise Lost("the endpoint is closed") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            raise Lost(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._client.aclose()


async def _body(response: httpx.Response) -> bytes:
    """Decompressed here, since httpx decompresses a chunk whole: 64 KB may be 64 MB, or without end if zipped twice."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise Lost("a reply in an encoding that was not asked for", heard=True)
    unzip = zlib.decompressobj(16 + zlib.MAX_WBITS) if "gzip" in encoding else None
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += unzip.decompress(chunk, LONGEST + 1 - len(body)) if unzip else chunk
            if len(body) > LONGEST:
                raise Lost(f"a reply of more than {LONGEST // 2**20} MB", heard=True)
    except zlib.error:
        raise Lost("a reply that cannot be decompressed", heard=True) from None
    return bytes(body)

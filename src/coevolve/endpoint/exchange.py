"""An HTTP request and its whole reply, within a limit of seconds and of bytes.

httpx limits the seconds of a single read, so a server that sends a byte now and then is never late. Here a separate event loop
sends the requests, and one deadline covers name lookup, handshake, header and body. Threads wait for the loop.
"""

import asyncio
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass

import httpx

from coevolve.core.errors import CoevolveError

LONGEST = 8 * 2**20  # most bytes of a decompressed reply
CONNECT = 10.0  # seconds to connect to a server


class Lost(Exception):
    """No complete reply. ``heard``: the server sent an unusable reply."""

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
        """The body as text. JSON is UTF-8 (RFC 8259), so the header's character set does not matter."""
        return self.body.decode("utf-8", "replace")


class Exchange:
    """Call ``send`` from many threads. ``close`` ends open requests. Redirects are not followed, because they would get the key."""

    def __init__(self, seconds: float, connections: int, headers: dict[str, str]) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=min(seconds, CONNECT)),
                headers=headers,
                limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            )
        except (httpx.InvalidURL, ValueError, ImportError):
            raise CoevolveError(
                "the proxy in the environment variables cannot be used; correct or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
            ) from None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def send(self, method: str, url: str, content: bytes | None = None) -> Response:
        """The complete reply. Raises Lost if there is none."""
        with self._lock:
            if self._closed:
                raise Lost("the endpoint is closed")
            future = asyncio.run_coroutine_threadsafe(self._exchange(method, url, content), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Lost("the endpoint is closed") from None
        except BaseException:
            future.cancel()  # after Ctrl-C no caller waits for it
            raise

    async def _exchange(self, method: str, url: str, content: bytes | None) -> Response:
        headers = {"Content-Type": "application/json"} if content is not None else {}
        asked = self._client.stream(method, url, content=content, headers=headers)
        try:
            async with asyncio.timeout(self._seconds), asked as response:
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
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LONGEST:
            raise Lost(f"a reply of more than {LONGEST // 2**20} MB", heard=True)
    return bytes(body)

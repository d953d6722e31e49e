"""An HTTP request and its whole reply, within a limit of seconds and of bytes."""

import time
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
    """Call ``send`` from many threads. Redirects are not followed, because they would get the key."""

    def __init__(self, seconds: float, connections: int, headers: dict[str, str]) -> None:
        self._seconds = seconds
        try:
            self._client = httpx.Client(
                timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT), pool=None),
                headers=headers,
                limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            )
        except (httpx.InvalidURL, ValueError, ImportError):
            raise CoevolveError(
                "the proxy in the environment variables cannot be used; correct or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
            ) from None

    def send(self, method: str, url: str, content: bytes | None = None) -> Response:
        """The complete reply. Raises Lost if there is none.

        httpx limits the seconds of a single read. The loop limits those of a server that sends a byte now and then.
        """
        headers = {"Content-Type": "application/json"} if content is not None else {}
        until, body = time.monotonic() + self._seconds, bytearray()
        try:
            with self._client.stream(method, url, content=content, headers=headers) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > LONGEST:
                        raise Lost(f"a reply of more than {LONGEST // 2**20} MB", heard=True)
                    if time.monotonic() > until:
                        raise TimeoutError
                return Response(response.status_code, bytes(body), response.headers.get("retry-after"))
        except (TimeoutError, httpx.TimeoutException):
            raise Lost(f"no whole reply within {self._seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, RuntimeError) as error:
            raise Lost(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        self._client.close()

"""A server that sends what it is told to, HTTP or not."""

import socketserver
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tests.servers import running
from tests.waiting import PATIENCE


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        try:
            length = 0
            while (line := self.rfile.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            self.rfile.read(length)
            for piece in self.server.answer():  # type: ignore[attr-defined]
                self.wfile.write(piece)
        except OSError:
            pass  # the client has given up


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def raw(answer: Callable[[], Iterable[bytes]]) -> Iterator[str]:
    """The URL of a server that sends the pieces of ``answer()`` to whoever has sent a request, and then closes."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.answer = answer  # type: ignore[attr-defined]
    with running(server) as url:
        yield url


def reply(body: bytes, status: int = 200, **headers: str) -> bytes:
    """A whole HTTP reply; ``content_encoding`` names the header Content-Encoding."""
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{named}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body

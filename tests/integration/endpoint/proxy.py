"""A proxy that breaks a share of what passes through it, as endpoints do."""

import itertools
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.servers import running
from tests.waiting import PATIENCE

FAULTS = ("429", "500", "reset", "stall", "truncated", "schema")
STALL = 60.0  # seconds


class Proxy(ThreadingHTTPServer):
    """Forwards to ``upstream``. The first ``script`` replies are as it says: (status, headers, body).

    Then ``share`` of the requests meet a fault, of all kinds in turn. ``delivered`` counts whole replies that were
    sent on, ``faults`` the others by kind. ``replies`` keeps upstream's by request; what is ``known`` is not asked of it,
    so that however busy the machine is, no reply but a stalled one comes late.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        upstream: str,
        share: float,
        script: list[tuple[int, dict[str, str], str]],
        known: dict[bytes, httpx.Response],
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream.removesuffix("/v1")
        self.share = share
        self.script = list(script)
        self.delivered = 0
        self.known = known
        self.replies: dict[bytes, httpx.Response] = {}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: dict[str, int] = dict.fromkeys(FAULTS, 0)
        self.lock = threading.Lock()
        self._rng = random.Random(1)
        self._kinds = itertools.cycle(FAULTS)
        self.client = httpx.Client(timeout=PATIENCE)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def fault(self) -> str | None:
        with self.lock:
            if self._rng.random() >= self.share:
                return None
            kind = next(self._kinds)
            self.faults[kind] += 1
            return kind


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.bodies.append(json.loads(body))
            self.server.headers.append(dict(self.headers))
            scripted = self.server.script.pop(0) if self.server.script else None
        if scripted:
            self._send(scripted[0], scripted[2].encode(), scripted[1])
            return
        kind = self.server.fault()
        if kind == "429":
            self._send(429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.05"})
        elif kind == "500":
            self._send(500, b"Internal Server Error")
        elif kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif kind == "stall":
            time.sleep(STALL)
        elif kind == "truncated":
            self._send(200, self._upstream(body).content[:-20])
        elif kind == "schema":
            self._send(200, b'{"object": "chat.completion", "choices": []}')
        else:
            reply = self._upstream(body)
            with self.server.lock:
                self.server.delivered += reply.status_code == 200
            self._send(reply.status_code, reply.content)

    def _upstream(self, body: bytes) -> httpx.Response:
        reply = self.server.known.get(body) or self.server.client.post(
            self.server.upstream + self.path, content=body, headers={"Content-Type": "application/json"}
        )
        self.server.replies[body] = reply
        return reply

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # the client has given up


@contextmanager
def proxy(
    upstream: str = "",
    share: float = 0.0,
    script: list[tuple[int, dict[str, str], str]] | None = None,
    known: dict[bytes, httpx.Response] | None = None,
) -> Iterator[Proxy]:
    server = Proxy(upstream, share, script or [], known or {})
    with running(server):
        yield server

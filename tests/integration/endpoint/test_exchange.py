"""No server holds us longer than a reply may take, or sends us more than a reply may hold."""

import gzip
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import Exhausted, Failed
from tests import ROOT
from tests.integration.endpoint.raw import raw, reply
from tests.integration.endpoint.test_client import GOOD, ask, endpoint
from tests.waiting import PATIENCE, stall, until

WHOLE = reply(GOOD.encode())
HEAD, _, BODY = WHOLE.partition(b"\r\n\r\n")
CHUNKED = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"


def trickled(start: bytes, rest: bytes) -> Iterator[bytes]:
    """``start`` at once, then ``rest`` a byte at a time: never late for who waits for the next byte."""
    yield start
    for place in range(len(rest)):
        time.sleep(0.05)
        yield rest[place : place + 1]


@pytest.mark.parametrize(
    ("start", "rest"),
    [
        (HEAD + b"\r\n\r\n", BODY),
        (b"", WHOLE),
        (CHUNKED, b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
        (b"HTTP/1.1 200 X\r\n", b"A: b\r\n" * 40 + HEAD.partition(b"\r\n")[2] + b"\r\n\r\n" + BODY),
    ],
    ids=["body", "all", "chunks", "headers"],
)
def test_the_timeout_is_of_the_whole_reply(tmp_path: Path, start: bytes, rest: bytes) -> None:
    with raw(lambda: trickled(start, rest)) as url:
        one = endpoint(url, tmp_path, timeout=0.5, retries=0)
        with pytest.raises((Failed, CoevolveError), match=r"no whole reply within 0\.5 s"):
            one.chat(ask())
        one.close()


def test_a_machine_that_stalls_loses_no_reply(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.integration.endpoint.test_client import ask, endpoint\n"
        "made = endpoint(sys.argv[1], Path(sys.argv[2]), timeout=5.0, retries=0)\n"
        "print(made.chat(ask()).content)\n"
    )
    asked, awake = threading.Event(), threading.Event()

    def late() -> Iterator[bytes]:
        asked.set()
        assert awake.wait(PATIENCE)
        time.sleep(0.5)
        yield WHOLE

    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with raw(late) as url:
        command = [sys.executable, "-c", program, url, str(tmp_path)]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        until(asked.is_set, "no request comes")
        stall([client.pid], 6.0)
        awake.set()
        assert client.communicate(timeout=PATIENCE)[0] == "yes\n"


def plain() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 X\r\n\r\n"
    for _ in range(64):
        yield b" " * 2**20


def zipped(level: int, body: bytes) -> bytes:
    for _ in range(level):
        body = gzip.compress(body, 9)
    return body


BOMB = zipped(1, bytes(256 * 2**20))


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (plain, "a reply of more than 8 MB"),
        (lambda: [reply(BOMB, Content_Encoding="gzip")], "a reply of more than 8 MB"),
        (lambda: [reply(zipped(2, bytes(2**20)), Content_Encoding="gzip, gzip")], "not asked for"),
        (lambda: [reply(zlib.compress(bytes(2**20)), Content_Encoding="deflate")], "not asked for"),
        (lambda: [reply(b"no gzip", Content_Encoding="gzip")], "cannot be decompressed"),
    ],
    ids=["plain", "bomb", "twice", "deflate", "broken"],
)
def test_a_reply_has_a_size(tmp_path: Path, pieces: object, said: str) -> None:
    with raw(pieces) as url:  # type: ignore[arg-type]
        one = endpoint(url, tmp_path, retries=0)
        tracemalloc.start()
        try:
            with pytest.raises((Failed, CoevolveError), match=said):
                one.chat(ask())
            assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
        finally:
            tracemalloc.stop()
            one.close()


def test_a_zipped_reply_is_read(tmp_path: Path) -> None:
    with raw(lambda: [reply(gzip.compress(GOOD.encode()), Content_Encoding="gzip")]) as url:
        assert endpoint(url, tmp_path).chat(ask()).content == "yes"


def test_closing_ends_what_waits(tmp_path: Path) -> None:
    """A request whose server is silent, and one that waits as long as its server asked for."""
    asked = threading.Event()

    def silent() -> Iterator[bytes]:
        asked.set()
        time.sleep(PATIENCE)
        yield b""

    def later() -> Iterator[bytes]:
        asked.set()
        yield reply(b"{}", 429, Retry_After="590")

    for answer in (silent, later):
        asked.clear()
        with raw(answer) as url, ThreadPoolExecutor(1) as pool:
            one = endpoint(url, tmp_path, timeout=2.0, retries=3)
            waiting = pool.submit(one.chat, ask())
            until(asked.is_set, "no request comes")
            one.close()
            assert isinstance(waiting.exception(PATIENCE), Exhausted | Failed | CoevolveError)

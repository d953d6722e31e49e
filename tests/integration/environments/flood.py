"""What a hostile client does to an OpenEnv server of ours; runs in the Python that has OpenEnv: `python flood.py URL SESSIONS`.

An honest client plays on all the while. Says "held" at the end; anything that does not hold is an exception.
"""

import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

PATIENCE = 900.0
URL = sys.argv[1]
WIDE = "%099999999d"  # as a format it is 100 MB


def opened() -> ClientConnection:
    return connect(URL.replace("http", "ws", 1) + "/ws", open_timeout=PATIENCE, max_size=None)


def ask(one: ClientConnection, text: str | bytes) -> dict[str, Any]:
    one.send(text)
    told: dict[str, Any] = json.loads(one.recv(timeout=PATIENCE))
    return told


def say(one: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    return ask(one, json.dumps({"type": kind, "data": data}))


def refused(one: ClientConnection, text: str | bytes) -> None:
    """An error of one line, or the end of this session."""
    try:
        told = ask(one, text)
        assert told["type"] == "error" and len(json.dumps(told)) < 5000, told
    except WebSocketException:
        pass


def hostile() -> Iterator[str | bytes]:
    for data in ({"seed": WIDE}, {"index": -1}, {"index": 10**30}, {"index": "0"}, {"index": True}, {"seed": [1]}):
        yield json.dumps({"type": "reset", "data": data})
    for split in (5, [], {}, "nosuch", "x" * 10**5):
        yield json.dumps({"type": "reset", "data": {"split": split}})
    for action in ({}, {"type": "call_tool"}, {"type": "call_tool", "tool_name": 5, "arguments": 6}, {"type": "no"}):
        yield json.dumps({"type": "step", "data": action})
    yield '{"type": "step", "data": {"type": "call_tool", "tool_name": "x", "arguments": ' + '{"a":' * 5000
    yield from ("[]", "5", "null", '"x"', "{}", "[" * 100_000, "no JSON", '{"type": []}', b"\xff\xfe")


def main() -> None:
    honest = opened()
    assert say(honest, "reset", seed=0)["type"] == "observation"

    def goes_on() -> None:
        told = say(honest, "step", type="list_tools")
        assert told["data"]["observation"]["tools"], told
        assert "digest" in ask(honest, '{"type": "state"}')["data"]

    one = opened()
    refused(one, json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": "x", "arguments": {}}}))
    assert say(one, "reset", seed=1)["type"] == "observation", "step before reset leaves the session as it was"
    one.close()
    for text in hostile():
        with opened() as one:
            refused(one, text)
        goes_on()
    crowd = []
    for _ in range(int(sys.argv[2]) + 8):
        crowd.append(opened())
    assert sum(_full(one) for one in crowd) == 9, "as many as were allowed, beside the honest one"
    goes_on()
    for one in crowd:
        one.close()
    with opened() as one:
        refused(one, json.dumps({"type": "reset", "data": {"x": "y" * 2**21}}))
    goes_on()
    assert _posted(64 * 2**20) is None
    goes_on()
    for path in ("reset", "miniworld/tasks"):
        for split in ('"nosuch\\u001b]0;x\\u0007"', '"\\ud800"', "5", "NaN", "{}", '"' + "x" * 10**5 + '"'):
            status, body = _asked(path, f'{{"split": {split}}}')
            assert status >= 400 and len(body) < 10**6, (path, split, status, body[:300])
            goes_on()
    status, body = _asked("reset", '{"split": "nosuch"}')
    assert status == 400 and "miniworld has no split 'nosuch'" in body, body
    place = urlsplit(URL)
    silent = [socket.create_connection((place.hostname, place.port)) for _ in range(64)]
    for part in silent[:32]:
        part.sendall(b"POST /reset HTTP/1.1\r\nContent-Length: 99999")
    goes_on()
    for part in silent:
        part.close()
    honest.close()
    print("held")


def _full(one: ClientConnection) -> bool:
    try:
        return say(one, "reset", seed=2)["type"] == "error"
    except WebSocketException:
        return True


def _asked(path: str, body: str) -> tuple[int, str]:
    """The status and the answer of a request."""
    request = urllib.request.Request(f"{URL}/{path}", body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _posted(size: int) -> Any:
    """What comes of a long body; None if it is not taken."""
    request = urllib.request.Request(
        f"{URL}/reset", b'{"x": "' + b"y" * size + b'"}', {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.read()
    except (urllib.error.HTTPError, OSError):
        return None


main()

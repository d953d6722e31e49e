"""The log of requests and answers, by content hash: a JSON object per line, only appended and never changed."""

import fcntl
import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse
from coevolve.core.untrusted import loads
from coevolve.endpoint.messages import Answer


class RequestLog:
    """Reads all of ``path`` at the start. It skips a line that a crash cut short; that request is sent again.

    Several processes may append to one file. ``writable`` False is for replays.
    """

    def __init__(self, path: Path, writable: bool = True) -> None:
        self._path = path
        self._writable = writable
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        try:
            if path.exists():
                self._read()
            elif writable:
                path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoevolveError(f"{path}: cannot be read ({error.strerror}); expected a request log") from None

    def _read(self) -> None:
        for number, text in enumerate(self._path.read_bytes().split(b"\n"), 1):
            if not text.strip():
                continue
            try:
                line = loads(text)
                reply = asdict(answer_of(line["reply"]))
                key, request = line["key"], line["request"]
                self._lines.setdefault(key, {"key": key, "request": request, "reply": reply})
            except (ValueError, KeyError, TypeError, CoevolveError):
                if not self._writable:
                    raise CoevolveError(
                        f"{self._path}:{number}: expected a line of a request log; copy the whole file again"
                    ) from None

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: str) -> Answer | None:
        line = self._lines.get(key)
        return None if line is None else answer_of(line["reply"])

    def line(self, key: str) -> dict[str, Any]:
        return self._lines[key]

    def put(self, key: str, request: dict[str, Any], answer: Answer) -> None:
        line = {"key": key, "request": request, "reply": asdict(answer)}
        with self._lock:
            self._lines[key] = line
            try:
                self._append(json.dumps(line, ensure_ascii=True).encode() + b"\n")
            except OSError as error:
                raise CoevolveError(
                    f"{self._path}: cannot be written ({error.strerror}); make room, then run the same command again: "
                    "the log holds all earlier answers"
                ) from None

    def _append(self, text: bytes) -> None:
        with self._path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, 2)
            if size:  # a crash may have cut the last line short
                file.seek(size - 1)
                torn = file.read(1) != b"\n"
            else:
                torn = False
            file.write((b"\n" if torn else b"") + text)


def answer_of(reply: Any) -> Answer:
    """The answer in a line of a log. A line without an answer is a CoevolveError."""
    return parse(Answer, reply, "reply")

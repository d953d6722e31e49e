"""Requests and their answers, by content hash, one JSON object a line, appended and never changed."""

import fcntl
import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.messages import Answer, RawCall


class RequestLog:
    """All of ``path`` is read at the start. A line that a crash cut short is skipped, and its request asked again.

    Several processes may append to one file. ``writable`` False is for replays.
    """

    def __init__(self, path: Path, writable: bool = True) -> None:
        self._path = path
        self._writable = writable
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        if path.exists():
            self._read()
        elif writable:
            path.parent.mkdir(parents=True, exist_ok=True)

    def _read(self) -> None:
        for text in self._path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
                _answer(line)
                self._lines.setdefault(line["key"], {name: line[name] for name in ("key", "request", "reply")})
            except (ValueError, KeyError, TypeError):
                if not self._writable:
                    raise CoevolveError(f"{self._path}: expected lines of a request log; get the whole file") from None

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: str) -> Answer | None:
        line = self._lines.get(key)
        return None if line is None else _answer(line)

    def line(self, key: str) -> dict[str, Any]:
        return self._lines[key]

    def put(self, key: str, request: dict[str, Any], answer: Answer) -> None:
        line = {"key": key, "request": request, "reply": asdict(answer)}
        with self._lock:
            self._lines[key] = line
            with self._path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                size = file.seek(0, 2)
                if size:  # a crash may have cut the last line short
                    file.seek(size - 1)
                    torn = file.read(1) != b"\n"
                else:
                    torn = False
                file.write((b"\n" if torn else b"") + json.dumps(line, ensure_ascii=True).encode() + b"\n")


def _answer(line: dict[str, Any]) -> Answer:
    reply = line["reply"]
    return Answer(**{**reply, "calls": [RawCall(**call) for call in reply["calls"]]})

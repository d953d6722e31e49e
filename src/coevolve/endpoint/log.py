"""The log of requests and answers, by content hash: a JSON object per line, only appended and never changed."""

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
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        try:
            if writable:
                path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
        except OSError as error:
            raise CoevolveError(f"{path}: cannot be read ({error.strerror}); expected a request log") from None
        self._end = b"\n" if lines[-1] else b""  # ends a line that a crash cut short
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            try:
                line = loads(text)
                reply = asdict(parse(Answer, line["reply"], "reply"))
                self._lines.setdefault(line["key"], {"key": line["key"], "request": line["request"], "reply": reply})
            except (ValueError, KeyError, TypeError, CoevolveError):
                if not writable:
                    raise CoevolveError(
                        f"{path}:{number}: expected a line of a request log; copy the whole file again"
                    ) from None

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: str) -> Answer | None:
        line = self._lines.get(key)
        return None if line is None else parse(Answer, line["reply"], "reply")

    def line(self, key: str) -> dict[str, Any]:
        return self._lines[key]

    def put(self, key: str, request: dict[str, Any], answer: Answer) -> None:
        line = {"key": key, "request": request, "reply": asdict(answer)}
        with self._lock:
            self._lines[key] = line
            try:
                with self._path.open("ab") as file:
                    file.write(self._end + json.dumps(line).encode() + b"\n")
                self._end = b""
            except OSError as error:
                raise CoevolveError(
                    f"{self._path}: cannot be written ({error.strerror}); make room, then run the same command again: "
                    "the log holds all earlier answers"
                ) from None

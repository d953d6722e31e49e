"""Keep untrusted text apart from our own, and make it safe to print."""

import contextlib
import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

LAYOUT = "\n\t"
DRIVING = ("Cc", "Cf", "Cs")  # control and format characters, also bidirectional ones, and lone surrogates


def plain(text: str) -> str:
    """Escape characters in ``text`` that control a terminal: they set a title or a clipboard, or overwrite lines."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in DRIVING and char not in LAYOUT else char
        for char in text
    )


@dataclass
class Printed:
    """The lines that an environment's code and its child processes printed."""

    lines: int = 0
    first: str = ""

    def notes(self) -> list[str]:
        return [f"the environment printed {self.lines} lines; the first: {self.first}"] if self.lines else []


@contextlib.contextmanager
def apart(printed: Printed, *streams: str) -> Iterator[None]:
    """Keep what the block prints to ``streams`` ("stdout", "stderr") out of a result, and count it in ``printed``."""
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as undo:
        undo.callback(_count, file, printed)
        for name in streams:
            number = ("stdout", "stderr").index(name) + 1  # a child process or C code knows only the number
            getattr(sys, name).flush()
            kept = os.dup(number)
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, number)
            undo.callback(getattr(sys, f"__{name}__").flush)  # a logger may hold this stream
            os.dup2(file.fileno(), number)
            # of its own, because the environment may close it
            stream = undo.enter_context(os.fdopen(os.dup(number), "w", buffering=1, errors="backslashreplace"))
            undo.callback(setattr, sys, name, getattr(sys, name))
            setattr(sys, name, stream)
        yield


def _count(file: IO[bytes], printed: Printed) -> None:
    file.seek(0)
    for line in filter(bytes.strip, file):
        printed.first = printed.first or " ".join(plain(line.decode(errors="replace")).split())[:200]
        printed.lines += 1

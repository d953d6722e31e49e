"""Keep untrusted text apart from our own, and make it safe to print."""

import io
import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

LAYOUT = "\n\t"
DRIVING = ("Cc", "Cf", "Cs")  # control and format characters, also bidirectional ones, and lone surrogates


def plain(text: str) -> str:
    """Escape characters in ``text`` that control a terminal: they set a title or a clipboard, or overwrite lines."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in DRIVING and char not in LAYOUT else char
        for char in text
    )


class Printed(io.TextIOBase):
    """Stands in for stdout or stderr while an environment's code runs: it counts the lines, and keeps the first."""

    def __init__(self) -> None:
        self.lines, self.first = 0, ""

    def write(self, text: str) -> int:
        if not self.lines:
            self.first += text
        self.lines += text.count("\n")
        return len(text)

    def close(self) -> None:
        """The environment may close what it takes for stdout."""

    def notes(self) -> list[str]:
        first = plain(" ".join(self.first.split("\n")[0].split()))[:200]
        return [f"the environment printed {self.lines} lines; the first: {first}"] if self.lines else []


@contextmanager
def apart(printed: Printed, *descriptors: int) -> Iterator[None]:
    """Count in ``printed`` what child processes print to the ``descriptors`` (1: stdout, 2: stderr), instead of showing it."""
    with TemporaryFile() as file:
        kept = [(number, os.dup(number)) for number in descriptors]
        for number in descriptors:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, before in kept:
                os.dup2(before, number)
                os.close(before)
            file.seek(0)
            printed.write(file.read().decode(errors="replace"))

"""Keep untrusted text apart from our own, and make it safe to print."""

import contextlib
import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterator

LAYOUT = "\n\t"
DRIVING = ("Cc", "Cf", "Cs")  # control and format characters, also bidirectional ones, and lone surrogates


def plain(text: str) -> str:
    """Escape characters in ``text`` that control a terminal: they set a title or a clipboard, or overwrite lines."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in DRIVING and char not in LAYOUT else char
        for char in text
    )


@contextlib.contextmanager
def apart(*streams: str) -> Iterator[list[str]]:
    """Keep what an environment's code and its child processes print to ``streams`` ("stdout", "stderr") out of a result.

    After the block, the yielded list holds a note on the printed lines, if there are any.
    """
    notes: list[str] = []
    with tempfile.TemporaryFile() as file:
        with contextlib.ExitStack() as undo:
            for name in streams:
                number = ("stdout", "stderr").index(
                    name
                ) + 1  # a child process, C code and a logger may know only the number
                bound = getattr(sys, f"__{name}__")  # a logger of the environment may hold it
                getattr(sys, name).flush()
                kept = os.dup(number)
                undo.callback(os.close, kept)
                undo.callback(os.dup2, kept, number)
                undo.callback(bound.flush)
                os.dup2(file.fileno(), number)
                # of its own, because the environment may close it
                stream = undo.enter_context(os.fdopen(os.dup(number), "w", buffering=1, errors="backslashreplace"))
                undo.callback(setattr, sys, name, getattr(sys, name))
                setattr(sys, name, stream)
            yield notes
        file.seek(0)
        lines = [line for line in file if line.strip()]
    if lines:
        first = " ".join(plain(lines[0].decode(errors="replace")).split())[:200]
        notes.append(f"the environment printed {len(lines)} lines; the first: {first!r}")

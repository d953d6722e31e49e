"""Make untrusted text safe to print, and read typed lines."""

import sys
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


def typed() -> Iterator[str]:
    """The lines that a person types, without blank lines. The prompt appears only on a terminal."""
    if sys.stdin.isatty():
        import readline  # noqa: F401  (gives input() a history)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line:
            yield line

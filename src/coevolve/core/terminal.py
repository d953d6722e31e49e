"""What others wrote, as a terminal may be given it, and what is typed there."""

import sys
import unicodedata
from collections.abc import Iterator

LAYOUT = "\n\t"
DRIVING = ("Cc", "Cf", "Cs")  # control and format characters (bidirectional ones among them), lone surrogates


def plain(text: str) -> str:
    """``text`` with what would drive the terminal spelled out: a title or a clipboard set, lines overwritten or reversed."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in DRIVING and char not in LAYOUT else char
        for char in text
    )


def typed() -> Iterator[str]:
    """What somebody types, a line at a time, without blank ones; a prompt only where someone is there to see it."""
    if sys.stdin.isatty():
        import readline  # noqa: F401  (makes input() remember lines)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line:
            yield line

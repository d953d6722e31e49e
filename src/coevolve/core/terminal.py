"""What others wrote, as a terminal may be given it."""

import unicodedata

LAYOUT = "\n\t"
DRIVING = ("Cc", "Cf", "Cs")  # control and format characters (bidirectional ones among them), lone surrogates


def plain(text: str) -> str:
    """``text`` with what would drive the terminal spelled out: a title or a clipboard set, lines overwritten or reversed."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in DRIVING and char not in LAYOUT else char
        for char in text
    )

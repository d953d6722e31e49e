"""Make untrusted text safe to print."""

import unicodedata

LAYOUT = "\n\t"
DRIVING = ("Cc", "Cf", "Cs")  # control and format characters, also bidirectional ones, and lone surrogates


def plain(text: str) -> str:
    """Escape characters in ``text`` that control a terminal: they set a title or a clipboard, or overwrite lines."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in DRIVING and char not in LAYOUT else char
        for char in text
    )

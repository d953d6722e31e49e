"""Parse untrusted JSON, text and URLs from servers, models and files.

Standard library only: workers run in environments without our packages.
"""

import json
import re
from typing import Any
from urllib.parse import urlsplit

DEPTH = 64  # most nested objects and lists
URL = "expected http://HOST/PATH or https://HOST/PATH, without a user, a key, a query or white space in it"


def writable(text: str) -> str:
    r"""``text`` in a form that every file can hold: lone surrogates are escaped, as in \ud800."""
    return text.encode(errors="backslashreplace").decode()


def decode(text: str, **hooks: Any) -> Any:
    """Parse JSON with the ``hooks`` of ``json.loads``. Invalid JSON is a ValueError with the reason."""
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def loads(text: str | bytes) -> Any:
    """Parse JSON and make its text ``writable``. Invalid or too deeply nested JSON is a ValueError of one line."""
    return sound(decode(text.decode("utf-8-sig", "replace") if isinstance(text, bytes) else text))


def sound(value: Any, left: int = DEPTH) -> Any:
    """A JSON value with its text made ``writable``. Too deep nesting is a ValueError."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list | dict) and left == 0:
        raise ValueError(f"nested deeper than {DEPTH} levels")
    if isinstance(value, list):
        return [sound(inner, left - 1) for inner in value]
    if isinstance(value, dict):
        return {writable(key): sound(inner, left - 1) for key, inner in value.items()}
    return value


def one_line(text: str, limit: int = 200) -> str:
    """``text`` for an error message: one line of at most ``limit`` characters, safe to print on a terminal."""
    line = " ".join(writable(text[: 8 * limit]).split())
    return "".join(sign if sign.isprintable() else "?" for sign in line)[:limit]


def markdown(text: str, limit: int = 100) -> str:
    """``text`` for a Markdown page: one line that shows its characters, and starts no cell, link, code or HTML."""
    return re.sub(r"[\\`|<>\[\]&]", r"\\\g<0>", one_line(text, limit))


def without_secrets(text: str) -> str:
    """``text`` with users, passwords and queries removed from its URLs."""
    return re.sub(r"(\w+://)(\S+)", _shown, text)


def _shown(url: "re.Match[str]") -> str:
    address = re.split("[?#]", url[2])[0]
    if "@" in url[2] and "@" not in address:  # the @ belongs to a query, or follows a password with a question mark
        return f"{url[1]}***"
    return url[1] + address.rpartition("@")[2]


def base_url(text: str) -> str:
    """A server's URL without its final slash. An invalid URL is a ValueError that does not show the URL.

    The URL appears in params.yaml, in logs and in errors, so it must not hold a secret: no user, no query.
    """
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isprintable() or set(text) & set(" ?#@"):
        raise ValueError(URL)
    return text.rstrip("/")

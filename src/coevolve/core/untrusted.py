"""What strangers send (servers, models, files): JSON that is read or refused, and text that can be written anywhere.

Standard library only: workers run in environments without our packages.
"""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from coevolve.core.calls import DEPTH, writable

URL = "expected http://HOST/PATH or https://HOST/PATH, without a user, a key, a query or white space in it"


def loads(text: str | bytes) -> Any:
    """The JSON value, its text made ``writable``; whatever is none, or nested too deep, is a ValueError of one line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig", "replace")
    try:
        return sound(json.loads(text))
    except RecursionError:
        raise ValueError(f"nested deeper than {DEPTH} levels") from None


def sound(value: Any, left: int = DEPTH) -> Any:
    """A JSON value with its text made ``writable``; a ValueError if it is nested too deep."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list | dict) and left == 0:
        raise ValueError(f"nested deeper than {DEPTH} levels")
    if isinstance(value, list):
        return [sound(one, left - 1) for one in value]
    if isinstance(value, dict):
        return {writable(key): sound(one, left - 1) for key, one in value.items()}
    return value


def one_line(text: str, limit: int = 200) -> str:
    """``text`` for an error: one line of at most ``limit`` characters, without what would steer a terminal."""
    line = " ".join(writable(text[: 8 * limit]).split())
    return "".join(sign if sign.isprintable() else "?" for sign in line)[:limit]


def without_secrets(text: str) -> str:
    """``text`` with the URLs in it cut to what may be shown: no user, no password, no query."""
    return re.sub(r"(\w+://)(\S+)", _shown, text)


def _shown(url: "re.Match[str]") -> str:
    place = re.split("[?#]", url[2])[0]
    if "@" in url[2] and "@" not in place:  # of a query, or behind a password that holds a question mark
        return f"{url[1]}***"
    return url[1] + place.rpartition("@")[2]


def base_url(text: str) -> str:
    """A server's URL without the slash at its end; anything else is a ValueError that does not show it.

    It stands in params.yaml, in logs and in errors, so it cannot be where a secret is kept: no user, no query.
    """
    plain = text.isascii() and text.isprintable() and not set(text) & set(' \\?#@"<>^`{|}')
    if not plain or not text.startswith(("http://", "https://")):
        raise ValueError(URL)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(URL) from None
    labels = host.rstrip(".").split(".")
    if port == 0 or len(host) > 253 or (":" not in host and not all(0 < len(one) < 64 for one in labels)):
        raise ValueError(URL)
    return text.rstrip("/")

"""Hides a key in texts, in each form in which JSON, URLs and HTTP write it. Servers and environments may echo it."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress

HIDDEN = "***"
SHORTEST = 8  # fewest characters of a key; a shorter value is a placeholder (EMPTY, none) for a server without keys


class Secret:
    """A ``key`` of ASCII characters to hide; a placeholder or no key hides nothing."""

    def __init__(self, key: str) -> None:
        forms = [key, *_encoded(key)] if len(key) >= SHORTEST else []
        self._found = re.compile("|".join("".join(map(_written, form)) for form in forms)) if forms else None

    def hide(self, text: str) -> str:
        """``text`` in which HIDDEN replaces the key."""
        return self._found.sub(HIDDEN, text) if self._found else text

    def hide_reply(self, body: bytes) -> bytes:
        """A server's reply without the key. JSON is decoded first, because its escapes can disguise any character."""
        if self._found is None:
            return body
        text = body.decode("utf-8-sig", "replace")
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text))
        return self.hide(text).encode()


def _written(sign: str) -> str:
    """A pattern for an ASCII character: itself, its escape in JSON within JSON, or percent-encoded. Bounded, so it takes linear time."""
    code = f"{ord(sign):02x}"
    return rf"\x00{{0,3}}(?:\\{{0,8}}{re.escape(sign)}|\\{{1,8}}u(?i:00{code})|%(?:25){{0,3}}(?i:{code}))"


def _encoded(key: str) -> Iterator[str]:
    """The part of the base64 of any text with ``key`` in it that depends on the key alone, as in basic authentication."""
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + key.encode()).decode()
        core = whole[-(-8 * before // 6) : 8 * (before + len(key)) // 6]
        yield from {core, core.replace("+", "-").replace("/", "_")}

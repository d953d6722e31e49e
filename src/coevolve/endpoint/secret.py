"""The key: read from the environment, sent in one header, and shown nowhere.

Every string from a server is cleaned of the key's value after JSON decoding. This covers the plain key and its spellings with
escapes of JSON, URLs and HTML, in whole or in part, also if escaped repeatedly.
"""

import html
import os
import re
from collections.abc import Iterator
from typing import Any

from coevolve.core.errors import CoevolveError

HIDDEN = "***"
SHORTEST = 8  # fewest characters of a key; a shorter value is a placeholder (EMPTY, none) for a server without keys
ROUNDS = 6  # rounds of decoding; text that is escaped more often is not checked
_ESCAPE = re.compile(r"(?:\\+u0*|\\+x|%)([2-7][0-9a-f])", re.IGNORECASE)
_BRACED = re.compile(r"(\\+u)\{([0-9a-f]+)\}", re.IGNORECASE)


def key_of(variable: str) -> str | None:
    """The key in the environment variable, if it is set. A key that no header can hold is a CoevolveError."""
    key = os.environ.get(variable) or None
    if key is not None and not all("!" <= sign <= "~" for sign in key):
        raise CoevolveError(
            f"{variable} holds white space, a control character or a letter beyond ASCII (a newline at its end?), which no "
            "key has; set it again without that"
        )
    return key


def _decoded(text: str) -> str:
    found = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), _BRACED.sub(r"\1\2", text))
    return (html.unescape(found) if "&" in found else found).replace("\\", "")


def _spellings(text: str) -> Iterator[str]:
    """``text``, and its form after each round of decoding."""
    for _ in range(ROUNDS):
        yield text.casefold()
        decoded = _decoded(text)
        if decoded == text:
            return
        text = decoded
    yield text.casefold()


class Secret:
    """A key, if there is one. Its text forms never show it."""

    __slots__ = ("_forms", "_key", "_literal")

    def __init__(self, key: str | None) -> None:
        self._key = key
        sought = key is not None and len(key) >= SHORTEST
        self._forms = {form for form in _spellings(key or "") if len(form) >= SHORTEST} if sought else set()
        self._literal = re.compile(re.escape(key or ""), re.IGNORECASE)

    def __repr__(self) -> str:
        return HIDDEN

    def headers(self) -> dict[str, str]:
        """The headers that send the key to the server."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def clean(self, value: Any) -> Any:
        """A JSON value without the key. The plain key is removed from strings. A string with another spelling of it is hidden."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.clean(one) for one in value]
        if isinstance(value, dict):
            return {self.clean(key): self.clean(one) for key, one in value.items()}
        return value

    def _text(self, text: str) -> str:
        text = self._literal.sub(HIDDEN, text)
        told = any(form in spelling for spelling in _spellings(text) for form in self._forms)
        return HIDDEN if told else text

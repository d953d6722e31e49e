"""The key: read from the environment, sent in one header, and told to nobody.

Whatever a server sends is cleaned of it by value, after JSON was decoded, in every string: of the key as it is, and of its
spellings by the escapes of JSON, URLs and HTML, whole or in part, and escaped again.
"""

import html
import os
import re
from collections.abc import Iterator
from typing import Any

from coevolve.core.errors import CoevolveError

HIDDEN = "***"
SHORTEST = 8  # characters; a shorter one is a placeholder (EMPTY, none) for a server that wants no key
ROUNDS = 6  # of decoding: what is escaped more often is not looked through
_ESCAPE = re.compile(r"(?:\\+u0*|\\+x|%)([2-7][0-9a-f])", re.IGNORECASE)
_BRACED = re.compile(r"(\\+u)\{([0-9a-f]+)\}", re.IGNORECASE)


def key_of(variable: str) -> str | None:
    """The key that the environment variable holds, if it is set; one that no header can hold is a CoevolveError."""
    key = os.environ.get(variable) or None
    if key is not None and not all("!" <= sign <= "~" for sign in key):
        raise CoevolveError(
            f"{variable} holds white space, a control character or a letter beyond ASCII (a newline at its end?), which no "
            "key does; set it again without"
        )
    return key


def _decoded(text: str) -> str:
    found = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), _BRACED.sub(r"\1\2", text))
    return (html.unescape(found) if "&" in found else found).replace("\\", "")


def _spellings(text: str) -> Iterator[str]:
    """``text``, and what is left of it after each round of decoding."""
    for _ in range(ROUNDS):
        yield text.casefold()
        decoded = _decoded(text)
        if decoded == text:
            return
        text = decoded
    yield text.casefold()


class Secret:
    """A key, if there is one. It shows itself to nobody."""

    __slots__ = ("_forms", "_key", "_literal")

    def __init__(self, key: str | None) -> None:
        self._key = key
        sought = key is not None and len(key) >= SHORTEST
        self._forms = {form for form in _spellings(key or "") if len(form) >= SHORTEST} if sought else set()
        self._literal = re.compile(re.escape(key or ""), re.IGNORECASE)

    def __repr__(self) -> str:
        return HIDDEN

    def headers(self) -> dict[str, str]:
        """What tells the server the key."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def clean(self, value: Any) -> Any:
        """A JSON value without the key: taken out where it stands as it is; a string that spells it otherwise is hidden."""
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

"""The key: read from the environment, sent in one header, and removed from everything that a server or environment says."""

import os
from typing import Any

from coevolve.core.errors import CoevolveError

HIDDEN = "***"
SHORTEST = 8  # fewest characters of a key; a shorter value is a placeholder (EMPTY, none) for a server without keys


def key_of(variable: str) -> str | None:
    """The key in the environment variable, if it is set. A key that no header can hold is a CoevolveError."""
    key = os.environ.get(variable) or None
    if key is not None and not all("!" <= sign <= "~" for sign in key):
        raise CoevolveError(
            f"{variable} holds white space, a control character or a letter beyond ASCII (a newline at its end?), which no "
            "key has; set it again without that"
        )
    return key


class Secret:
    """A key, if there is one. Its text forms never show it."""

    __slots__ = ("_key",)

    def __init__(self, key: str | None) -> None:
        self._key = key

    def __repr__(self) -> str:
        return HIDDEN

    def headers(self) -> dict[str, str]:
        """The headers that send the key to the server."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def clean(self, value: Any) -> Any:
        """A JSON value in which HIDDEN replaces the key."""
        if self._key is None or len(self._key) < SHORTEST:
            return value
        if isinstance(value, str):
            return value.replace(self._key, HIDDEN)
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean(item) for name, item in value.items()}
        return value

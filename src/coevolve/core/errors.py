"""The exception that users read, and words that many of its messages share."""

import difflib
from collections.abc import Iterable

from coevolve.core.terminal import plain


class CoevolveError(Exception):
    """A mistake in the input: one line that names the file, key or line, what was expected and what to do.

    Commands and pipeline stages print it without a traceback and exit with code 1. Quoted text of files, servers and
    agents is escaped, so it cannot control a terminal.
    """

    def __str__(self) -> str:
        return plain(super().__str__())


def expected(name: str, choices: Iterable[str]) -> str:
    """The end of an error about ``name``, which is none of the ``choices``: all of them, and the nearest."""
    listed = list(choices)
    close = difflib.get_close_matches(name, listed, n=1)
    return f"expected one of: {', '.join(listed)}{f' (did you mean {close[0]!r}?)' if close else ''}"


def first_line(error: BaseException) -> str:
    """The first line of the text of ``error``, at most 200 characters; its type if it has no text."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def install(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, inside a clone and outside."""
    return f"pip install 'coevolve[{extra}]'"

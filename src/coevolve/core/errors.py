"""The exception that users read, and words that many of its messages share."""

from coevolve.core.terminal import plain


class CoevolveError(Exception):
    """A mistake in the input: one line that names the file, key or line, what was expected and what to do.

    Commands and pipeline stages print it without a traceback and exit with code 1. Quoted text of files, servers and
    agents is escaped, so it cannot control a terminal.
    """

    def __str__(self) -> str:
        return plain(super().__str__())


def first_line(error: BaseException) -> str:
    """The first line of the text of ``error``, at most 200 characters; its type if it has no text."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def install(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, inside a clone and outside."""
    return f"pip install 'coevolve[{extra}]'"

"""The exception that users read."""

from coevolve.core.terminal import plain


class CoevolveError(Exception):
    """A mistake in the input: one line that names the file, key or line, what was expected and what to do.

    Commands and pipeline stages print it without a traceback and exit with code 1. Quoted text of files, servers and
    agents is escaped, so it cannot control a terminal.
    """

    def __str__(self) -> str:
        return plain(super().__str__())

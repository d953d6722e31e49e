"""`coevolve` in this process, as the installed command runs it."""

import contextlib
import io
import signal
import subprocess
from pathlib import Path
from unittest.mock import patch

from coevolve.cli import main


def coevolve(*arguments: str, cwd: Path | None = None, typed: str = "") -> subprocess.CompletedProcess[str]:
    """The exit code and the output of one command. ``typed`` is its standard input."""
    out, error = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    code: object = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
        contextlib.chdir(cwd or Path.cwd()),
        patch("sys.stdin", io.StringIO(typed)),
    ):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
        finally:
            signal.signal(signal.SIGTERM, before)
    return subprocess.CompletedProcess(
        ["coevolve", *arguments],
        code if isinstance(code, int) else int(code is not None),
        out.getvalue(),
        error.getvalue(),
    )

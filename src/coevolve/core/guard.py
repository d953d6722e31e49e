"""One-line errors, and a clean end on Ctrl-C and SIGTERM, for stages and for commands."""

import errno
import os
import re
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import NoReturn

from coevolve.core.errors import CoevolveError, install
from coevolve.core.terminal import plain

# words by which errors of libraries report a full disk
FULL = (
    "No space left",
    "os error 28",
    "disk is full",
    "File too large",
    "PytorchStreamWriter failed",
    "unexpected pos ",
)

WITHOUT_DOCSTRINGS = (
    "Python runs without docstrings, which describe tools and which transformers needs; unset PYTHONOPTIMIZE, or start "
    "Python without -OO"
)
OUT_OF_MEMORY = (
    "out of memory; in params.yaml lower train.micro_batch, policy.episode_tokens or train.vllm.memory, set "
    "train.gradient_checkpointing, train.lora.enabled or policy.dtype: bfloat16, or shard by launch.sharding"
)


def guard(action: Callable[[], int | None]) -> NoReturn:
    """Run ``action`` and exit with its result or 0, with 130 after an interrupt, with 1 after an error that a user can fix,
    and quietly with 141 when stdout is closed.

    Errors that a user can fix are one line: a CoevolveError, a path that cannot be read or written, a full disk, no memory.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if sys.flags.optimize > 1:
            raise CoevolveError(WITHOUT_DOCSTRINGS)
        code = action() or 0
        sys.stdout.flush()
    except CoevolveError as error:
        _say(f"error: {error}")
        code = 1
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _unheard():
            sys.exit(128 + signal.SIGPIPE)
        if not (text := lack(error)):
            raise
        _say(f"error: {plain(text)}")
        code = 1
    except KeyboardInterrupt:
        _say("interrupted; run the same command again to continue")
        code = 130
    sys.exit(code)


def _say(line: str) -> None:
    if "tqdm" in sys.modules:
        from coevolve.core.progress import close_bars

        close_bars()
    print(line, file=sys.stderr)


def _unheard() -> bool:
    """Whether the reader of stdout is gone, as after ``| head``. If so, discard all further output."""
    out = select.poll()
    out.register(sys.stdout, select.POLLOUT)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in out.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def lack(error: Exception) -> str:
    """If ``error`` means that the machine lacks a package, disk space, memory or a right: the lack and its remedy. Else empty."""
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("coevolve"):
        return f"this needs the package {error.name}; run `{install('train')}`, which brings all that a run needs"
    if text := full_disk(error):
        return text
    reason = _reason(error)
    # torch raises a subclass of RuntimeError if a device has no memory left
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if full or "can't allocate memory" in str(error):
        return f"{OUT_OF_MEMORY} ({reason})"
    if "AF_UNIX path too long" in str(error):
        return f"TMPDIR is too long for the sockets of processes: {tempfile.gettempdir()}; set it to a shorter folder, such as /tmp"
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename else reason
        return f"{what}; fix it or its permissions, and run the same command again"
    return ""


def full_disk(error: Exception) -> str:
    """If ``error`` of Python or of a library means that a disk is full: the file that it names, and the remedy. Else empty."""
    code = error.errno if isinstance(error, OSError) else None
    if code not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and not any(words in str(error) for words in FULL):
        return ""
    named = re.search(r"""["']([^"']*/[^"']*)["']""", str(error))  # as DuckDB quotes a path
    file = (error.filename if isinstance(error, OSError) else None) or (named[1] if named else "a file")
    return f"{file} cannot be written: the disk is full ({_reason(error)}); make room, and run the same command again"


def _reason(error: Exception) -> str:
    """The first line of the text of ``error``."""
    if isinstance(error, shutil.Error):  # of a folder's copy: source, target and reason of each file
        said = error.args[0][0][2]
    else:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return plain((said or type(error).__name__).splitlines()[0][:200])

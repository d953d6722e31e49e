"""What an agent's call may be, whoever reads it and whatever it is made to. Standard library only: workers need it too.

A name and JSON that every file, pipe and reader of a run can hold: no number without end, no half of a character, nested
and long within limits.
"""

import json
from typing import Any

DEPTH = 64  # of objects and lists in each other
CHARACTERS = 100_000  # of name and arguments, as JSON
DEEP = f"arguments are nested deeper than {DEPTH} levels"
_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def misfit(name: str, arguments: Any) -> str:
    """What keeps the two from being a call, in words for the agent; empty if nothing does."""
    try:
        text = _written([name, arguments])
        text.encode()
    except RecursionError:
        return DEEP
    except UnicodeEncodeError:
        return "a text holds half of a character (a lone surrogate)"
    except (TypeError, ValueError):
        return "arguments must be JSON, with finite numbers of not too many digits"
    if text.count("[") + text.count("{") > DEPTH and _deeper(arguments):
        return DEEP
    return f"a call is longer than {CHARACTERS} characters" if len(text) > CHARACTERS else ""


def _deeper(arguments: Any) -> bool:
    """Whether objects and lists are more than ``DEPTH`` in each other; level by level, for a level takes no stack."""
    level = [arguments]
    for _ in range(DEPTH + 1):
        level = [value for value in level if isinstance(value, dict | list | tuple)]
        if not level:
            return False
        level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return True


def writable(text: str) -> str:
    r"""``text`` as every file can hold it: halves of characters are spelled, as in \ud800."""
    return text.encode(errors="backslashreplace").decode()

"""The rule for an agent's calls, the same for every reader and every environment. Standard library only, for workers.

A call is a name and JSON arguments that every file and pipe of a run can hold: finite numbers, no lone surrogates,
limited nesting and length.
"""

import json
from collections.abc import Mapping
from typing import Any

DEPTH = 64  # most nested objects and lists
CHARACTERS = 100_000  # most characters of name and arguments as JSON
DEEP = f"arguments are nested deeper than {DEPTH} levels"
_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def misfit(name: str, arguments: Any) -> str:
    """Why name and arguments are not a valid call, in words for the agent; empty if they are."""
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
    """Whether ``arguments`` nest deeper than ``DEPTH``. Works level by level, because recursion could exhaust the stack."""
    level = [arguments]
    for _ in range(DEPTH + 1):
        level = [value for value in level if isinstance(value, dict | list | tuple)]
        if not level:
            return False
        level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return True


def readable(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a person writes it, such as find_mail(subject="repair")."""
    return f"{name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in arguments.items())})"


def writable(text: str) -> str:
    r"""``text`` in a form that every file can hold: lone surrogates are escaped, as in \ud800."""
    return text.encode(errors="backslashreplace").decode()

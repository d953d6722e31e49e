"""Prompts for models, one file each. A prompt's version is its name and a hash of its text, and goes into provenance.

Untrusted text (from an environment, a user or a model) appears in a prompt only as JSON strings: in one line, between quotation marks
that it cannot close, and without `<`, with which marks of roles begin. The prompts say that such text is data.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

WORDS = 4000  # most characters of an instruction or of a model's text in a prompt
ARGUMENTS = 1000  # most characters of a call's arguments
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    version: str

    def fill(self, **values: str) -> str:
        """The text with each ``$name`` replaced. A name without a value is a KeyError."""
        return Template(self.text).substitute(values)


@cache
def prompt(name: str) -> Prompt:
    """``prompts/name.md``."""
    text = files("coevolve.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    return Prompt(text, f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}")


def quoted(text: str, limit: int = WORDS) -> str:
    """``text``, cut after ``limit`` characters, as one JSON string without control characters."""
    return _inert(json.dumps(text if len(text) <= limit else f"{text[:limit]} [...]", ensure_ascii=False))


def quoted_lines(texts: Iterable[str]) -> str:
    """The texts as JSON strings, one per line."""
    return "\n".join(quoted(text) for text in texts)


def quoted_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as `name({...})`. An invalid name, or too long arguments, become a JSON string."""
    told = json.dumps(arguments, ensure_ascii=False)
    return f"{quoted_name(name)}({_inert(told) if len(told) <= ARGUMENTS else quoted(told, ARGUMENTS)})"


def quoted_name(name: str) -> str:
    """A tool's name, or a JSON string if the name is invalid."""
    return name if _NAME.fullmatch(name) else quoted(name, 64)


def _inert(text: str) -> str:
    """JSON in which `<` and every character that cannot be printed are escaped."""
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text).replace("<", "\\u003c")

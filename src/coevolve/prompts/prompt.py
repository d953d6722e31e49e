"""What models are told, a file each. A prompt's version is its name and a hash of its text, and goes into provenance."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    version: str

    def fill(self, **values: str) -> str:
        """The text with ``$name`` replaced; a name without a value is a KeyError."""
        return Template(self.text).substitute(values)


@cache
def prompt(name: str) -> Prompt:
    """``prompts/name.md``."""
    text = files("coevolve.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    return Prompt(text, f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}")

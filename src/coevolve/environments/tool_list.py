"""The tools that a server lists, as OpenAI function schemas. Standard library only, for workers."""

import json
from typing import Any

from coevolve.core.untrusted import sound

PAGES = 100  # most pages of a list
CHARACTERS = 2_000_000  # most characters of all tools as JSON
EXPECTED = "expected a name, a description and a JSON schema with properties for each tool"


class ToolList:
    """The ``schemas`` of a server's tools. Invalid tools, or a list without an end, are a ValueError."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self._names: set[str] = set()
        self._characters = 0

    def add(self, name: Any, description: Any, parameters: Any) -> None:
        schema = function(name, description, parameters)
        if name in self._names:
            raise ValueError(f"two tools are called {name}")
        self._names.add(name)
        self._characters += len(json.dumps(schema))
        self.schemas.append(schema)
        if self._characters > CHARACTERS:
            raise ValueError(f"the tools are longer than {CHARACTERS} characters")


def function(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    """The OpenAI schema of a tool. A name that a terminal cannot show, or an invalid schema, is a ValueError."""
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(parameters, dict)):
        raise ValueError(EXPECTED)
    if not name or not name.isprintable() or not isinstance(parameters.get("properties", {}), dict):
        raise ValueError(EXPECTED)
    inner = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": sound(inner)}

"""The tools that a server lists, as OpenAI function schemas, and the answers of its tools. Standard library only, for workers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.untrusted import sound

PAGES = 100  # most pages of a list
CHARACTERS = 2_000_000  # most characters of all tools as JSON
SHOWN = 100_000  # most characters of an observation
UNSEEN = ("_meta", "meta", "annotations")  # of a part of an answer: for programs, not for the agent
BYTES = ("data", "blob")  # of a part: base64
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
    """The OpenAI schema of a tool. A name that a terminal cannot show, or an invalid schema, is a ValueError.

    A schema that lists no ``properties`` allows any argument, as in JSON Schema, and then says so.
    """
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(parameters, dict)):
        raise ValueError(EXPECTED)
    if not name or not name.isprintable() or not isinstance(parameters.get("properties", {}), dict):
        raise ValueError(EXPECTED)
    if "properties" not in parameters:
        parameters = {"additionalProperties": True, **parameters, "properties": {}}
    inner = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": sound(inner)}


def unknown(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """The ``arguments`` that the schema does not list, unless it allows others."""
    if parameters.get("additionalProperties", False) is not False:
        return []
    return sorted(set(arguments) - set(parameters.get("properties", {})))


def cut(text: str) -> str:
    """``text`` as an observation of at most ``SHOWN`` characters, which says what it lacks."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} [cut after {SHOWN} of {len(text)} characters]"


def answer(parts: Sequence[Any], structured: Any) -> str:
    """The text of a tool's answer: of the parts of its content, and of its structured content unless they say the same."""
    texts = [_text(part) for part in parts]
    if structured is not None and not (texts and _say(texts, structured)):
        texts.append(json.dumps(structured, ensure_ascii=False))
    return "\n".join(texts)


def _text(part: Any) -> str:
    """The text of a part. One without a text is JSON, in which hashes replace bytes: different contents stay different."""
    inner = part.get("resource", part) if isinstance(part, dict) else part
    text = inner.get("text") if isinstance(inner, dict) else None
    return text if isinstance(text, str) else json.dumps(_shown(part), ensure_ascii=False)


def _shown(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in part.items() if value is not None and key not in UNSEEN}
    return {key: f"sha256:{content_hash(value)}" if key in BYTES else _shown(value) for key, value in kept.items()}


def _say(texts: Sequence[str], structured: Any) -> bool:
    """Whether ``texts`` are the structured content. Servers wrap a value that is no object as ``result``, and split a list."""
    wrapped = isinstance(structured, dict) and list(structured) == ["result"]
    forms = [structured, structured["result"]] if wrapped else [structured]
    values = [_value(text) for text in texts]
    said: list[Any] = [list(texts), values]
    if len(texts) == 1:
        said += [texts[0], values[0]]
    return bool({content_hash(form) for form in forms} & {content_hash(form) for form in said})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

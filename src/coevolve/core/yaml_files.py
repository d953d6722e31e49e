"""Read params.yaml and similar files. Every mistake is a line that names the key and the nearest valid key."""

import difflib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from coevolve.core.calls import DEPTH
from coevolve.core.errors import CoevolveError
from coevolve.core.io import flaw
from coevolve.core.section import Section
from coevolve.core.untrusted import URL
from coevolve.core.untrusted import one_line as shortened

CHARACTERS = 250_000  # most characters of a file: reading is slow, and dvc.yaml has 9,000
KEY = 60  # most characters of a key in an error
VALUES = 10_000  # most values of a file, with its aliases written out
PREFIX = "tag:yaml.org,2002:"
KINDS = ("map", "seq", "str", "bool", "int", "float", "null")  # of values, as YAML names them

SECRET = {
    "endpoint.key": "expected the name of an environment variable, such as OPENAI_API_KEY, never the key itself",
    "endpoint.url": URL,
    "compute.address": "expected auto, here or HOST:PORT, without a user",
}

# Removed keys and removed values of keys, each with the remedy
REMOVED = {
    "explore.curiosity": "remove it: no guidance reads it",
    "explore.guidance: adaptive": "set signals, which explores the agent's weaknesses and tools that few tasks ask for",
    "explore.shape": "remove it: no guidance reads it",
    "explore.stones": "remove it; signals.kinds with unsolved explores around tasks that always fail",
    "grpo.unsolved_groups": "remove it; grpo.rescue learns from the references of tasks that were never solved",
    "pairs.level": "remove it: pairs are of whole episodes",
    "signals.shape": "remove it: each kind measures its own weakness; verify.select keeps the tasks that teach most",
    "train.reference": "set train.anchor, which means the same: parent or base",
    "train.mixture": "remove it; train.curriculum decides which tasks a step takes",
    "train.shape: tent": "set variance or bell",
    "train.shape: hard": "set variance or bell",
    "verify.select.shape: tent": "set variance or bell",
    "verify.select.shape: hard": "set variance or bell",
}

Checked = TypeVar("Checked", bound=Section)


def read_yaml(text: str, where: str = "YAML") -> Any:
    """YAML 1.2, as DVC reads and writes it: 1e-05 is a number.

    It holds what JSON can hold: texts, numbers, true, false, null, lists, and mappings from texts. Anything else is a
    CoevolveError that names ``where`` and the key.
    """
    if len(text) > CHARACTERS:
        raise CoevolveError(f"{where}: has {len(text)} characters, expected at most {CHARACTERS}; shorten it")
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = DEPTH
    try:
        node = yaml.compose(text)
        if node is None:
            return None
        _Size(yaml).of(node, "")
        return yaml.constructor.construct_document(node)
    except YAMLError as error:
        raise CoevolveError(f"{where}: expected YAML ({' '.join(str(error).split())[:300]})") from None
    except ValueError as error:
        raise CoevolveError(f"{where}: {error}") from None


class _Size:
    """Count the values in a document, with each alias (``*name``) written out. An unsupported value is a ValueError.

    An alias costs a few characters and stands for any number of values, so a short text may hold billions of them.
    """

    def __init__(self, yaml: YAML) -> None:
        self._yaml = yaml
        self._sizes: dict[int, int | None] = {}  # by node; None while its values are counted

    def of(self, node: Node, key: str) -> int:
        if (known := self._sizes.get(id(node), 0)) is None:
            raise ValueError(f"{key}: is an alias of itself; write its value out")
        if known:
            return known
        self._sizes[id(node)] = None
        size = 1 + sum(self.of(inner, name) for inner, name in self._inner(node, key))
        if size > VALUES:
            raise ValueError(
                f"{key or 'the file'}: has {size} values with aliases written out; expected at most {VALUES}"
            )
        self._sizes[id(node)] = size
        return size

    def _inner(self, node: Node, key: str) -> Iterator[tuple[Node, str]]:
        """The nodes in ``node`` with their keys."""
        if (kind := str(node.tag).removeprefix(PREFIX)) not in KINDS:
            raise ValueError(f"{key or 'the file'}: the YAML type {kind[:40]} is not allowed; put a text in quotes")
        if isinstance(node, MappingNode):
            for name, inner in node.value:
                yield inner, f"{key}.{self._name(name, key)}".removeprefix(".")
        elif isinstance(node, SequenceNode):
            yield from ((inner, f"{key}[{row}]") for row, inner in enumerate(node.value))
        elif reason := self._flaw(node):
            raise ValueError(f"{key or 'the file'}: {reason}")

    def _name(self, node: Node, key: str) -> str:
        if str(node.tag) not in (f"{PREFIX}str", f"{PREFIX}merge") or flaw(node.value):
            line = node.start_mark.line + 1
            raise ValueError(f"{key or 'the file'}: line {line}: expected a text as key; put it in quotes")
        return shortened(node.value, KEY)

    def _flaw(self, node: Node) -> str:
        try:
            return flaw(self._yaml.constructor.construct_object(node))
        except ValueError:  # not a number, or a number with more digits than Python converts
            return "expected a number of at most 64 bits"


def write_yaml(values: Any) -> str:
    """The YAML text that ``read_yaml`` reads ``values`` from."""
    text = StringIO()
    YAML(typ="safe", pure=True).dump(values, text)
    return text.getvalue()


def one_line(value: Any, word: Callable[[str], str]) -> str:
    """``value`` in one line, in the syntax of YAML and Hydra. ``word`` writes texts that are not keys."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {one_line(inner, word)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(one_line(inner, word) for inner in value) + "]"
    return word(value) if isinstance(value, str) else json.dumps(value)


def load_yaml(path: Path, missing: str) -> dict[str, Any]:
    """The sections of a YAML file. ``missing`` is the remedy in the error for a missing file."""
    try:
        raw = read_yaml(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise CoevolveError(f"{path}: no such file; {missing}") from None
    except UnicodeDecodeError as error:
        raise CoevolveError(f"{path}: expected UTF-8 text ({error})") from None
    if not isinstance(raw, dict):
        raise CoevolveError(f"{path}: expected sections with keys, found {type(raw).__name__}")
    return raw


def validated(section: type[Checked], values: dict[str, Any], name: str) -> Checked:
    """A section from other sources than params.yaml. Errors name its keys as those of section ``name``."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise CoevolveError(explain(error, section, name)) from None


def removed(changes: Mapping[str, Any]) -> str | None:
    """The first dotted key of ``changes`` that was removed, or that is set to a removed value; None if no key is."""
    return next((key for key, value in changes.items() if key in REMOVED or f"{key}: {value}" in REMOVED), None)


def explain(error: ValidationError, model: type[BaseModel], section: str = "") -> str:
    """The first mistake of ``error``, which ``model`` found in ``section``, in one line."""
    errors = error.errors()
    first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
    key = ".".join(str(part) for part in ((section,) if section else ()) + first["loc"])
    if first["type"] == "extra_forbidden" and key in REMOVED:
        return f"{key} has been removed; {REMOVED[key]}"
    if first["type"] == "extra_forbidden":
        return unknown(key, _siblings(model, first["loc"][:-1]))
    if first["type"] == "missing":
        return f"missing key {key}; add it"
    if isinstance(first["input"], str) and (value := f"{key}: {first['input']}") in REMOVED:
        return f"{value} has been removed; {REMOVED[value]}"
    message = str(first["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    if isinstance(first["input"], dict) and first["type"] == "value_error":  # keys that contradict each other
        return f"{key}: {message}; change one of them"
    if key in SECRET:
        return f"{key}: {SECRET[key]}; change it"  # the value may be a key: it is not shown
    return f"{key}: {message}, found {shortened(repr(first['input']))}; change it"


def unknown(key: str, keys: Collection[str]) -> str:
    """The error for a ``key`` that is not among the ``keys`` of its section, with the nearest valid key."""
    key = shortened(key)
    close = difflib.get_close_matches(key.rpartition(".")[2], keys, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "remove it, or see docs/parameters.md"
    return f"unknown key {key}; {hint}"


def _siblings(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """The valid keys at ``location`` of the parameters."""
    for part in location:
        if isinstance(part, int):
            continue
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                arguments = getattr(field.annotation, "__args__", None)
                model = arguments[0] if arguments else field.annotation
    return [field.alias or name for name, field in model.model_fields.items()]

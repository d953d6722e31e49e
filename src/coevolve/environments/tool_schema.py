"""The JSON schema of a tool's arguments: its parts, the values that fit them, and values to try.

`jsonschema` decides what fits, `referencing` resolves references. Beside draft 2020-12, a schema may have bounds of draft 4, OpenAPI's
`nullable`, Gemini's types in capitals, and Python's names of types.
"""

import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from itertools import product
from operator import getitem
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator
from pydantic_core.core_schema import str_schema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

NUMBERS = range(1, 61)  # values for unknown numbers: typical counts, amounts, days and minutes
LONGEST = 500  # most characters of a value as JSON: longer values are documents, which users do not give
LARGEST = 10**12  # numbers beyond it are only the limits of a type
FOLLOWED = 5_000  # most references to follow for the values of one argument
PARTS = 100  # most parts that are read as one: a part may hold itself
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")  # keywords with schemas by name
DATA = ("enum", "const", "default", "examples")
BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
FORMATS = {
    "date": ["2026-03-09", "2026-11-30"], "date-time": ["2026-03-09T10:30:00Z", "2026-11-30T18:00:00Z"],
    "time": ["10:30:00Z", "18:00:00Z"], "duration": ["PT30M", "P2D"], "email": ["ada@example.com", "bo@example.org"],
    "uuid": ["0b0f1d52-6a1e-4c39-9d0e-3f5b7c1a2d48", "c2a4e6f8-1b3d-4f5a-8c7e-9d0b2a4c6e81"],
    "uri": ["https://example.com/a", "https://example.org/b"], "ipv4": ["192.0.2.1", "192.0.2.8"],
}  # fmt: skip
FORMAT = FormatChecker([])


@lru_cache(4096)
def _regex(pattern: str) -> SchemaValidator:
    """A search in linear time: a foreign pattern may take Python's ``re`` exponential time. SchemaError if it is none."""
    return SchemaValidator(str_schema(pattern=pattern, regex_engine="rust-regex"))


@FORMAT.checks("regex", raises=SchemaError)  # type: ignore[untyped-decorator]
def _is_regex(pattern: Any) -> bool:
    return not isinstance(pattern, str) or bool(_regex(pattern))


def _matches(validator: Any, pattern: str, value: Any, part: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _regex(pattern).isinstance_python(value):
        yield ValidationError("the pattern does not match")


def _named(validator: Any, patterns: Mapping[str, Any], value: Any, part: Any) -> Iterator[ValidationError]:
    for pattern, key in product(patterns, value if isinstance(value, dict) else ()):
        if _regex(pattern).isinstance_python(key):
            yield from validator.descend(value[key], patterns[pattern])


def _others(validator: Any, others: Any, value: Any, part: Any) -> Iterator[ValidationError]:
    keys = set(value) - set(part.get("properties", {})) if isinstance(value, dict) else set()
    for key in keys:
        if not any(_regex(pattern).isinstance_python(key) for pattern in part.get("patternProperties", {})):
            yield from validator.descend(value[key], others)


_META = Draft202012Validator(Draft202012Validator.META_SCHEMA, format_checker=FORMAT)
# keywords with patterns; unevaluatedProperties counts as absent
_LINEAR = {
    "pattern": _matches,
    "patternProperties": _named,
    "additionalProperties": _others,
    "unevaluatedProperties": lambda *_: (),
}


class ToolSchema:
    """The schema in ``text``. ``remarks`` names the parts that are not understood, which count as absent."""

    def __init__(self, text: str) -> None:
        root = _standard(json.loads(text))
        wrong = {tuple(error.absolute_path): error.message for error in _META.iter_errors(root)}
        self.remarks = [f"{'.'.join(map(str, place))}: {said[:100]}".lstrip(": ") for place, said in wrong.items()]
        for place in sorted(filter(None, wrong), reverse=True):  # inner parts first
            del reduce(getitem, place[:-1], root)[place[-1]]
        self._root = root if isinstance(root, dict) else {}
        self._validator = extend(Draft202012Validator, {"$ref": self._follow, **_LINEAR})(self._root)
        self._targets: dict[str, Any] = {}
        resolver = Registry().resolver_with_root(DRAFT202012.create_resource(self._root))
        for reference in re.findall(r'"\$ref": "([^"\\]*)"', json.dumps(self._root, ensure_ascii=False)):
            try:
                self._targets[reference] = resolver.lookup(reference).contents
                _META.validate(self._targets[reference])
            except (Unresolvable, ValueError, ValidationError):
                self._targets[reference] = True
                self.remarks.append(f"the reference {reference[:100]} leads nowhere")

    def flat(self, part: Any = None, rng: random.Random | None = None) -> dict[str, Any]:
        """``part`` (by default the whole schema) without references, `allOf`, `anyOf` and `oneOf`; has `properties` and `required`.

        ``rng`` draws one of several alternatives. Without it they are merged. Null does not count as an alternative.
        """
        flat: dict[str, Any] = {"properties": {}, "required": []}
        parts = [self._root if part is None else part]
        for one in parts:  # the list grows
            if not isinstance(one, dict):
                continue
            more = [*one.get("allOf", ()), self._targets.get(one.get("$ref", ""))]
            for key in ("anyOf", "oneOf"):
                more += _drawn([arm for arm in one.get(key, ()) if arm != {"type": "null"}], rng)
            parts += [part for part in more if not any(part is known for known in parts)][: PARTS - len(parts)]
            named = dict(flat["properties"])
            for key, inner in one.get("properties", {}).items():
                named[key] = {"allOf": [named[key], inner]} if key in named else inner
            flat = {**one, **flat, "properties": named, "required": [*flat["required"], *one.get("required", ())]}
        if isinstance(flat.get("type"), list):
            flat["type"] = next(iter(_drawn([kind for kind in flat["type"] if kind != "null"], rng)), "null")
        return flat

    def fitting(self, values: Iterable[Any], part: Any) -> list[Any]:
        """The ``values`` that fit ``part`` and are not too long: no values if a reference leads only back to itself."""
        validator, self._followed = self._validator.evolve(schema=part), 0
        try:
            return [value for value in values if validator.is_valid(value) and len(json.dumps(value)) < LONGEST]
        except Exception:  # a reference leads only back to itself, or a dynamic one nowhere
            return []

    def _follow(self, validator: Any, reference: str, value: Any, part: Any) -> Iterator[ValidationError]:
        """Validate ``value`` by the target of ``reference``. References may double the work at each level."""
        self._followed += 1
        if self._followed > FOLLOWED:
            raise RecursionError
        yield from validator.descend(value, self._targets[reference])


def tool_schema(function: Mapping[str, Any]) -> ToolSchema:
    """The schema of a tool's arguments, whatever its server sends as such."""
    try:
        return _tool_schema(json.dumps(function.get("parameters") or {}))
    except (TypeError, ValueError, RecursionError) as error:
        return ToolSchema(json.dumps(f"not readable: {error}"))


_tool_schema = lru_cache(4096)(ToolSchema)


def to_try(flat: Mapping[str, Any]) -> list[Any]:
    """Values for a flat schema, not all of which need fit. Empty for free text, lists and records."""
    if "enum" in flat:
        return list(flat["enum"])
    given = [
        value for value in [*flat.get("examples", ()), flat.get("example"), flat.get("default")] if value is not None
    ]
    kind = flat.get("type")
    if kind in ("integer", "number"):
        edges = [flat[key] for pair in BOUNDS.items() for key in pair if abs(flat.get(key, math.inf)) < LARGEST]
        near = [math.floor(edge) + step for edge in edges for step in range(-NUMBERS[-1], NUMBERS[-1] + 1)]
        between = [sum(edges) / 2] if len(edges) == 2 and kind == "number" else []
        numbers = [*(flat.get("multipleOf", 1) * number for number in NUMBERS), *near, *between]
        return [*given, *map(int if kind == "integer" else float, (one for one in numbers if abs(one) < LARGEST))]
    if kind == "boolean":
        return [True, False]
    return given or FORMATS.get(flat.get("format", ""), []) if kind in ("string", None) else given


def _drawn(options: list[Any], rng: random.Random | None) -> list[Any]:
    return [rng.choice(options)] if rng and len(options) > 1 else options


def _standard(part: Any, named: bool = False) -> Any:
    """``part`` as draft 2020-12. ``named``: its keys are names of parts, not words of JSON Schema."""
    if isinstance(part, list):
        return [_standard(one) for one in part]
    if not isinstance(part, dict):
        return part
    new = {
        key: one if key in DATA and not named else _standard(one, key in NAMED and not named)
        for key, one in part.items()
    }
    if named:
        return new
    if "const" in new:
        new["enum"] = [new.pop("const")]
    if isinstance(new.get("type"), str):
        new["type"] = TYPES.get(new["type"].lower(), new["type"].lower())
    for key, bound in BOUNDS.items():
        if isinstance(new.get(key), bool) and new.pop(key) and bound in new:
            new[key] = new.pop(bound)
    return {"anyOf": [new, {"type": "null"}]} if new.get("nullable") is True else new

"""Python values as JSON: the answers of a simulator's methods, and its attributes, which are the state of the world."""

import json
import logging
import sys
import threading
from asyncio import Lock, Semaphore
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from decimal import Context, Decimal
from enum import Enum
from functools import cache, cached_property, partial
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import by_value

# attributes that say nothing about the world
TOOLS = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    partial,
    type,
    ModuleType,
    logging.Logger,
    logging.LoggerAdapter,
)
LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event, Lock, Semaphore)
LEFT_OUT = (*TOOLS, *LOCKS, Random)
ATOMS = {str, int, float, bool, type(None)}
DIGITS = Context(prec=1000)


def jsonable(value: Any, other: Callable[[Any], Any] = to_jsonable_python) -> Any:
    """``value`` as JSON. Sets are sorted, because their order differs between processes. ``other`` writes what is no container."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is list:
        return [jsonable(one, other) for one in value]
    if isinstance(value, Enum):
        return jsonable(value.value, other)
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif is_dataclass(value) and kind is not type:
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key if type(key) is str else _key(key, other): jsonable(one, other) for key, one in value.items()}
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, AbstractSet) and not isinstance(value, ItemsView):
        return sorted((jsonable(one, other) for one in value), key=json.dumps)
    if isinstance(value, Sequence | ValuesView | ItemsView) and not isinstance(value, bytes | bytearray | memoryview):
        return [jsonable(one, other) for one in value]
    if hasattr(value, "tolist"):  # an array
        return jsonable(value.tolist(), other)
    return other(value)


def _key(value: Any, other: Callable[[Any], Any]) -> str:
    return str(by_value(jsonable(value, other)))


def answer(method: str, result: Any) -> str:
    """The text that an agent reads for the ``result`` of ``method``: a text as it is, all else as JSON."""
    if type(result) is str:
        return result
    value = list(result) if isinstance(result, Iterator) else result
    try:
        found = jsonable(value)
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CoevolveError(
            f"{method} returns a {type(result).__name__} that cannot be written as JSON ({error}); "
            "return text, numbers, lists, dicts, dataclasses or pydantic models"
        ) from None


def state_of(world: Any) -> dict[str, Any]:
    """The state of a simulator as JSON: what its ``state()`` returns, or else its attributes by name.

    An attribute that cannot be written is a CoevolveError that names it.
    """
    kind = type(world).__name__
    own = getattr(type(world), "state", None)
    attributes = {"state()": own(world)} if callable(own) else _attributes(world)
    written, writer = {}, _Writer()
    for name, value in sorted(attributes.items()):
        if isinstance(value, LEFT_OUT):
            _note(f"{kind}.{name} is not part of the state: it is a {type(value).__name__}")
            continue
        try:
            written[name] = jsonable(value, writer.write)
        except (TypeError, ValueError, RecursionError) as error:
            raise CoevolveError(
                f"{kind}.{name} is a {type(value).__name__} that cannot be compared ({error}); give {kind} a method "
                "`state()` that returns all that counts, as JSON, dataclasses or pydantic models"
            ) from None
    return written


def _attributes(world: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too, without what a ``cached_property`` remembers."""
    if isinstance(world, BaseModel):
        return {**vars(world), **(world.__pydantic_private__ or {})}
    held = world.__getstate__()  # what a copy takes over
    found: dict[str, Any] = {}
    for part in held if isinstance(held, tuple) else (held,):  # __dict__ and slots
        found |= part if isinstance(part, dict) else {}
    remembered = {name for name in found if isinstance(getattr(type(world), name, None), cached_property)}
    return {name: value for name, value in found.items() if name not in remembered}


class _Writer:
    """Writes the parts of a state that are no JSON and no containers."""

    def __init__(self) -> None:
        self._met: dict[int, tuple[int, Any]] = {}  # objects that equal only themselves, which may hold each other

    def write(self, value: Any) -> Any:
        if isinstance(value, LEFT_OUT):
            return [type(value).__name__, getattr(value, "__qualname__", "")]
        if isinstance(value, Decimal):
            return str(DIGITS.normalize(DIGITS.add(value, 0)))
        if not isinstance(value, Iterator):  # pydantic would use an iterator up
            try:
                return to_jsonable_python(value, bytes_mode="base64")
            except ValueError:
                pass
        kind: Any = type(value)
        if kind.__eq__ is object.__eq__:
            if id(value) in self._met:
                return [self._met[id(value)][0]]
            self._met[id(value)] = (len(self._met), value)
        _, given, *held = value.__reduce_ex__(4)  # what makes a copy of it
        parts = [list(part) if isinstance(part, Iterator) else part for part in held]
        return jsonable([kind.__qualname__, given, parts], self.write)


@cache
def _note(text: str) -> None:
    """Say ``text`` once."""
    print(text, file=sys.stderr)

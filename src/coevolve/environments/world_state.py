"""Python values as JSON: the answers of a simulator's methods, and its attributes, which are the state of the world."""

import json
import logging
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set, ValuesView
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache, cached_property
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from coevolve.core.errors import CoevolveError

# attributes that say nothing about the world
LEFT_OUT = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    type,
    logging.Logger,
    Random,
    type(threading.Lock()),
    type(threading.RLock()),
)


def jsonable(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """``value`` as JSON. ``other`` writes what pydantic does not know.

    Sets are sorted, because their order differs between processes. Equal decimals are equally written.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    elif hasattr(value, "tolist"):  # an array
        value = value.tolist()
    if isinstance(value, Mapping):
        value = {key: jsonable(one, other) for key, one in value.items()}
    elif isinstance(value, Set):
        value = sorted((jsonable(one, other) for one in value), key=json.dumps)
    elif isinstance(value, list | tuple | deque | ValuesView):
        value = [jsonable(one, other) for one in value]
    elif isinstance(value, Decimal):
        value = format((value + 0).normalize(), "f")  # -0 is 0
    elif isinstance(value, Iterator) and other:  # pydantic would use it up
        value = other(value)
    return to_jsonable_python(value, fallback=other)


def answer(method: str, result: Any) -> str:
    """The text that an agent reads for the ``result`` of ``method``: a text as it is, all else as JSON."""
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
    written = {}
    for name, value in sorted(attributes.items()):
        if isinstance(value, LEFT_OUT):
            _note(f"{kind}.{name} is not part of the state: it is a {type(value).__name__}")
            continue
        try:
            written[name] = jsonable(value, _parts)
        except (TypeError, ValueError, RecursionError) as error:
            raise CoevolveError(
                f"{kind}.{name} is a {type(value).__name__} that cannot be compared ({error}); give {kind} a method "
                "`state()` that returns all that counts, as JSON, dataclasses or pydantic models"
            ) from None
    return written


def _attributes(world: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too, without what a ``cached_property`` remembers."""
    held = world.__getstate__()  # what a copy takes over: __dict__, or also slots
    if isinstance(world, BaseModel):
        held = (held["__dict__"], held["__pydantic_private__"])
    found: dict[str, Any] = {}
    for part in held if isinstance(held, tuple) else (held,):
        found |= part or {}
    return {
        name: one for name, one in found.items() if not isinstance(getattr(type(world), name, None), cached_property)
    }


def _parts(value: Any) -> Any:
    """An object in a state as what makes a copy of it: its class and its attributes. A TypeError if it cannot be copied.

    An SQLite database is the statements that make it.
    """
    if isinstance(value, sqlite3.Connection):
        return list(value.iterdump())
    if isinstance(value, LEFT_OUT):
        return getattr(value, "__qualname__", type(value).__name__)
    return jsonable(value.__reduce_ex__(4)[:3], _parts)


@cache
def _note(text: str) -> None:
    """Say ``text`` once."""
    print(text, file=sys.stderr)

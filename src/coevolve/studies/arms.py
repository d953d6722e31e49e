"""Check that a run has the parameters of its arm. An arm is a set of changes to params.yaml; other keys follow that file."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.section import dotted
from coevolve.stages.validate.config import LIMITS

# Keys that do not distinguish arms: runs differ by seed, and the others cannot change a policy
APART = {"seed", "compute", *(f"validate.{name}" for name in LIMITS), "report", "tracking"}


def parameters(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``params`` with ``changes``, which have dotted keys."""
    made: dict[str, Any] = deepcopy(dict(params))
    for key, value in changes.items():
        *sections, name = key.split(".")
        place = made
        for section in sections:
            inner = place.get(section)
            place[section] = place = inner if isinstance(inner, dict) else {}
        place[name] = value
    return made


def unsaid(params: Mapping[str, Any], changes: Mapping[str, Any]) -> str | None:
    """The first change that would keep a part of a mapping in ``params``, with that part; None if there is none.

    DVC merges a mapping into the one that params.yaml has, so a change to a mapping must name all keys of that one.
    """
    for key, value in changes.items():
        place: Any = params
        for name in key.split("."):
            place = place.get(name) if isinstance(place, Mapping) else None
        if isinstance(value, Mapping) and isinstance(place, Mapping) and (kept := sorted(place.keys() - value.keys())):
            return f"{key}: DVC would keep {key}.{kept[0]} of params.yaml; name every key of {key}"
    return None


def refused(params: Mapping[str, Any], changes: Mapping[str, Any]) -> str | None:
    """Why coevolve refuses ``params`` with ``changes``; None if it accepts them."""
    from coevolve.stages.schema import parse

    try:
        parse(parameters(params, changes), "its parameters")
    except CoevolveError as error:
        return str(error)
    return None


def further(expected: Mapping[str, Any], ran: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``ran`` that are not the ``expected`` ones, by dotted key: edits of params.yaml that were not committed."""
    known = dotted(expected)
    return {
        key: value
        for key, value in dotted(ran).items()
        if not any(_within(key, apart) for apart in APART) and (key not in known or known[key] != value)
    }


def departure(ran: Mapping[str, Any], arm: Mapping[str, Any], changes: Collection[str] = ()) -> str | None:
    """The first key with different values, with both values; None if there is none.

    A key that ``arm`` alone has counts with its default on the other side. A key that ``ran`` alone has counts if it is one of the
    run's ``changes``: params.yaml named more keys once, and their defaults may have changed since. Keys that coevolve no longer has
    do not count.
    """
    return _departure(_whole(ran), _whole(arm), _defaults(), changes, "")


def _within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _departure(
    ran: Mapping[str, Any], arm: Mapping[str, Any], defaults: Mapping[str, Any], changes: Collection[str], place: str
) -> str | None:
    for name in sorted(ran.keys() | arm.keys()):
        key = f"{place}{name}"
        if key in APART or (name not in defaults and not (name in ran and name in arm)):
            continue
        if name not in arm and not any(_within(key, change) or _within(change, key) for change in changes):
            continue
        default = defaults.get(name)
        one, other = ran.get(name, default), arm.get(name, default)
        if all(isinstance(values, Mapping) for values in (one, other, default)):
            if found := _departure(ran.get(name, {}), arm.get(name, {}), default or {}, changes, f"{key}."):
                return found
        elif one != other:
            return f"{key} {one}, not {other}"
    return None


def _whole(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """``params`` with the defaults of their method."""
    from coevolve.stages.method import with_method

    try:
        return with_method(params)
    except CoevolveError:  # of other code, whose methods had other rules
        return params


@cache
def _defaults() -> Mapping[str, Any]:
    from coevolve.stages.schema import parse, plain

    return plain(parse({"iterations": [{"t": 0, "next": 1}]}, "defaults"))

"""Whether a run had the parameters of its arm: arms are changes of params.yaml, and what they leave alone changes with that file."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

# What makes no arm another: runs differ by seed, and the other sections shape no policy
APART = {"seed", "compute", "watch", "report", "tracking"}


def parameters(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``params`` with ``changes`` by dotted key."""
    made: dict[str, Any] = deepcopy(dict(params))
    for key, value in changes.items():
        *sections, name = key.split(".")
        place = made
        for section in sections:
            inner = place.get(section)
            place[section] = place = inner if isinstance(inner, dict) else {}
        place[name] = value
    return made


def departure(ran: Mapping[str, Any], arm: Mapping[str, Any], within: str = "") -> str | None:
    """The first key whose value is another, with both values; None if there is none.

    A key that one side lacks was made or deleted between them, and does not count: whoever adds a parameter adds it so that it
    changes nothing, or changes others.
    """
    for key in sorted(ran.keys() & arm.keys()):
        if not within and key in APART:
            continue
        one, other = ran[key], arm[key]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if found := departure(one, other, f"{within}{key}."):
                return found
        elif one != other:
            return f"{within}{key} {one}, not {other}"
    return None

"""Check that a run has the parameters of its arm. An arm is a set of changes to params.yaml; other keys follow that file."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

# Keys that do not distinguish arms: runs differ by seed, and the other sections cannot change a policy
APART = {"seed", "compute", "watch", "report", "tracking"}


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


def departure(ran: Mapping[str, Any], arm: Mapping[str, Any], within: str = "") -> str | None:
    """The first key with different values, with both values; None if there is none.

    A key that only one side has was added or removed between the two runs. It does not count: a new parameter changes no result, or
    other keys change with it.
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

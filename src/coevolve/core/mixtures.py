"""Several environments in one run, each with its share: ``0.5*miniworld+0.5*sql``.

As text, so that a mixture can stand wherever an environment's name does: in `params.yaml`, on a command line, in a record of MLflow.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from coevolve.core.errors import CoevolveError

T = TypeVar("T")
TOLERANCE = 1e-6  # of the sum of shares, which is 1


def shares(text: str) -> dict[str, float]:
    """By environment; one name alone has share 1, names without shares have equal ones. Anything else is a CoevolveError."""
    terms = [one.strip().rpartition("*") for one in text.split("+")]
    names = [name.strip() for _, _, name in terms]
    if len(names) == 1:
        return {text: 1.0}
    if not all(names) or len(set(names)) < len(names):
        raise CoevolveError(f"environment {text!r}: expected names joined by +, each once, as in 0.5*miniworld+0.5*sql")
    try:
        given = [float(share) for share, sign, _ in terms if sign]
    except ValueError:
        raise CoevolveError(f"environment {text!r}: a share is no number, as in 0.5*miniworld+0.5*sql") from None
    found = dict(zip(names, given or [1 / len(names)] * len(names), strict=False))
    if len(given) not in (0, len(names)):
        raise CoevolveError(f"environment {text!r}: some have a share and some have none; give one to each, or to none")
    if not all(share > 0 for share in found.values()) or abs(sum(found.values()) - 1) > TOLERANCE:
        raise CoevolveError(
            f"environment {text!r}: the shares sum to {sum(found.values()):g}; let each be above 0, and their sum 1"
        )
    return found


def mixture(given: Mapping[str, float]) -> str:
    """The text of a mixture."""
    return "+".join(f"{share!r}*{name}" for name, share in given.items())


def apportioned(given: Mapping[str, float], count: int) -> dict[str, int]:
    """``count`` places in proportion to the shares, by largest remainder."""
    total = sum(given.values())
    exact = {name: share / total * count for name, share in given.items()}
    rooms = {name: int(one) for name, one in exact.items()}
    for name in sorted(exact, key=lambda name: rooms[name] - exact[name])[: count - sum(rooms.values())]:
        rooms[name] += 1
    return rooms


def in_turn(own: Mapping[str, Sequence[T]], given: Mapping[str, float]) -> list[T]:
    """All that they own: of the first ones of any number each has its share, as long as it has any left."""
    taken: Counter[str] = Counter()
    found = []
    for _ in range(sum(map(len, own.values()))):
        name = _next([one for one in own if taken[one] < len(own[one])], taken, given)
        found.append(own[name][taken[name]])
        taken[name] += 1
    return found


def turns(given: Mapping[str, float], count: int) -> list[str]:
    """Whose turn it is, ``count`` times, where each has enough."""
    taken: Counter[str] = Counter()
    found = []
    for _ in range(count):
        found.append(_next(list(given), taken, given))
        taken[found[-1]] += 1
    return found


def _next(names: Sequence[str], taken: Mapping[str, int], given: Mapping[str, float]) -> str:
    """Who lacks most of its share of what will have been taken by then."""
    each = (sum(taken.values()) + 1) / sum(given.values())
    return max(names, key=lambda name: given[name] * each - taken[name])

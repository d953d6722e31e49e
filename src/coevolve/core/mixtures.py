"""Several environments in one run, each with its share: ``0.5*miniworld+0.5*sql``.

A mixture is text, so it can replace an environment's name in `params.yaml`, on a command line, or in an MLflow record.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from coevolve.core.errors import CoevolveError

T = TypeVar("T")
TOLERANCE = 1e-6  # how far the sum of the shares may be from 1


def shares(text: str) -> dict[str, float]:
    """The share of each environment. A single name has share 1, names without shares have equal shares.

    Any other text is a CoevolveError.
    """
    terms = [term.strip().rpartition("*") for term in text.split("+")]
    names = [name.strip() for _, _, name in terms]
    if len(names) == 1:
        return {text: 1.0}
    try:
        given = [float(share) for share, sign, _ in terms if sign] or [1 / len(names)] * len(names)
    except ValueError:
        given = []
    valid = len(given) == len(names) and min(given) > 0 and abs(sum(given) - 1) <= TOLERANCE
    if not valid or not all(names) or len(set(names)) < len(names):
        raise CoevolveError(
            f"environment {text!r}: expected different names joined by +, all without shares, or all with shares above 0 whose sum "
            "is 1, as in 0.5*miniworld+0.5*sql"
        )
    return dict(zip(names, given, strict=True))


def mixture(given: Mapping[str, float]) -> str:
    """The text of a mixture."""
    return "+".join(f"{share!r}*{name}" for name, share in given.items())


def apportioned(given: Mapping[str, float], count: int) -> dict[str, int]:
    """Divide ``count`` in proportion to the shares, by largest remainder."""
    total = sum(given.values())
    exact = {name: share / total * count for name, share in given.items()}
    counts = {name: int(size) for name, size in exact.items()}
    for name in sorted(exact, key=lambda name: counts[name] - exact[name])[: count - sum(counts.values())]:
        counts[name] += 1
    return counts


def in_turn(rows: Mapping[str, Sequence[T]], given: Mapping[str, float]) -> list[T]:
    """All rows of all environments, interleaved so that every prefix holds each environment's share while it has rows."""
    taken: Counter[str] = Counter()
    ordered = []
    for _ in range(sum(map(len, rows.values()))):
        name = _next([name for name in rows if taken[name] < len(rows[name])], taken, given)
        ordered.append(rows[name][taken[name]])
        taken[name] += 1
    return ordered


def turns(given: Mapping[str, float], count: int) -> list[str]:
    """``count`` names, interleaved so that every prefix holds each environment's share."""
    taken: Counter[str] = Counter()
    names = []
    for _ in range(count):
        names.append(_next(list(given), taken, given))
        taken[names[-1]] += 1
    return names


def _next(names: Sequence[str], taken: Mapping[str, int], given: Mapping[str, float]) -> str:
    """The name that is furthest below its share after one more is taken."""
    each = (sum(taken.values()) + 1) / sum(given.values())
    return max(names, key=lambda name: given[name] * each - taken[name])

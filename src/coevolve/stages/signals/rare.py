"""Rare: an action pattern that occurs, but seldom.

CoEvolve (arXiv 2604.15840): 0 < c_p / N < theta / 100, with c_p the count of pattern p and N that of all patterns.
Patterns are the tool names of single valid calls (order 1) and of ordered pairs of consecutive valid calls
within a trajectory (order 2); each order has its own N.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Pattern = tuple[str, ...]
ORDERS = (1, 2)


def patterns(calls: Iterable[Sequence[str]], order: int) -> Counter[Pattern]:
    """Count the patterns of ``order`` over trajectories, each the names of its valid calls in order."""
    return Counter(tuple(names[start : start + order]) for names in calls for start in range(len(names) - order + 1))


def rare(counts: Mapping[Pattern, int], threshold: float) -> list[Pattern]:
    """The patterns of one order that are rarer than ``threshold`` percent, rarest first, then by name."""
    total = sum(counts.values())
    # multiplied out, so that a share of exactly theta percent does not depend on rounding
    found = [pattern for pattern, count in counts.items() if 0 < count * 100 < threshold * total]
    return sorted(found, key=lambda pattern: (counts[pattern], pattern))

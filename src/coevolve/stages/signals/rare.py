"""Rare: an action pattern that occurs, but seldom.

CoEvolve (arXiv 2604.15840): 0 < c_p / N < theta / 100, where c_p is the count of pattern p and N the count of all
patterns. Patterns are the tool names of single valid calls (order 1) and of ordered pairs of consecutive valid calls
within a trajectory (order 2). Each order has its own N.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kind import EXAMPLES, Firing, Kind
from coevolve.stages.signals.table import Pattern, Table

ORDERS = (1, 2)


def rare(counts: Mapping[Pattern, int], threshold: float) -> list[Pattern]:
    """The patterns that are rarer than ``threshold`` percent, rarest first, then by name."""
    total = sum(counts.values())
    # exact arithmetic with the decimal as written: 7 of 2,500 is 0.28 percent, which no float can represent
    limit = Fraction(repr(threshold)) * total
    below = [pattern for pattern, count in counts.items() if 0 < count * 100 < limit]
    return sorted(below, key=lambda pattern: (counts[pattern], pattern))


def findings(table: Table, config: Signals) -> Iterator[Firing]:
    """The rare patterns of every order, rarest first. The weakness is the relative distance to the threshold."""
    threshold = config.rare_threshold
    for order in ORDERS:
        counts = table.patterns(order)
        total = sum(counts.values())
        patterns = rare(counts, threshold)
        shown = table.examples(patterns, EXAMPLES)
        for pattern in patterns:
            evidence = {"order": order, "count": counts[pattern], "total": total, "threshold": threshold}
            rarity = 1.0 - 100.0 * counts[pattern] / (threshold * total)
            yield Firing(evidence, rarity, shown.get(pattern, []), list(pattern))


def absence(table: Table, threshold: float) -> str:
    """Why no pattern of ``table`` is rare: how many patterns there are, and the smallest share of them."""
    found = [table.patterns(order) for order in ORDERS]
    shares = [100 * count / sum(counts.values()) for counts in found for count in counts.values()]
    least = f"the smallest share of the {len(shares)} patterns is {min(shares, default=0):.1f} %"
    return f"{least}, and signals.rare_threshold is {threshold:g} %" if shares else "the agent made no valid call"


RARE = Kind(
    "rare",
    "It hardly ever uses this pattern of tools.",
    "a tool, or an ordered pair of consecutive valid calls, with 0 < share < THETA percent",
    of_table=findings,
)

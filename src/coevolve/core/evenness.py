"""How evenly things are used."""

import math
from collections.abc import Mapping


def evenness(counts: Mapping[str, int], most: int) -> float | None:
    """H(counts) / log ``most``, the entropy as a share of the most there can be, in [0, 1]; None without counts or choice."""
    total = sum(counts.values())
    if not total or most < 2:
        return None
    shares = [count / total for count in counts.values()]
    return -sum(share * math.log(share) for share in shares) / math.log(most)

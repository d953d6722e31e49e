"""How signals share an iteration's explorations: in proportion to how weak the agent is and how seldom tasks show it."""

import bisect
import itertools
import random
from collections.abc import Collection, Mapping, Sequence

from coevolve.core.records import Signal


def weight(signal: Signal, wanted: Collection[str], uses: Mapping[str, int], tools: int) -> float:
    """The signal's strength / (1 + the number of tasks that use the most seldom used tool of ``wanted``).

    Pairs of ``tools`` tools count for less by that factor, as there are so many more of them.
    """
    seldom = 1.0 / (1 + min((uses[name] for name in wanted), default=0))
    return signal.strength * seldom / (tools if len(signal.pattern or ()) > 1 else 1)


def sample(weights: Sequence[float], count: int, rng: random.Random) -> list[int | None]:
    """``count`` positions in proportion to ``weights`` (systematic sampling), in random order; None without weight."""
    edges = list(itertools.accumulate(weights))
    if count == 0 or not edges or edges[-1] <= 0.0:
        return [None] * count
    step, start = edges[-1] / count, rng.random()
    drawn: list[int | None] = [
        bisect.bisect(edges, (start + place) * step, hi=len(edges) - 1) for place in range(count)
    ]
    rng.shuffle(drawn)
    return drawn

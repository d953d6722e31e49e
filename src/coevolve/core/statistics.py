"""Bootstrap intervals of means, and the evenness of counts."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol


class Intervals(Protocol):
    """Parameters of bootstrap intervals: the number of resamples and the level."""

    @property
    def bootstrap(self) -> int: ...

    @property
    def confidence(self) -> float: ...


def bootstrap(values: Sequence[float], config: Intervals, seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979) from ``config.bootstrap`` resamples of tasks."""
    import numpy as np

    data = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(0, len(data), (config.bootstrap, len(data)))].mean(axis=1)
    outside = (1.0 - config.confidence) / 2.0
    low, high = np.quantile(means, [outside, 1.0 - outside])
    return float(low), float(high)


def evenness(counts: Mapping[str, int], most: int) -> float | None:
    """H(counts) / log ``most``: the entropy as a share of its maximum, in [0, 1]. None without counts or choice."""
    total = sum(counts.values())
    if not total or most < 2:
        return None
    shares = [count / total for count in counts.values()]
    return (0.0 - sum(share * math.log(share) for share in shares)) / math.log(most)  # 0.0, not -0.0, for one kind

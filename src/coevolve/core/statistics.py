"""Means with confidence intervals, over seeds or tasks, and the evenness of counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Protocol

ERROR = 0.05  # the chance that an interval misses


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of ``count`` values with half the width of its interval, which is infinite for a single value."""

    mean: float
    half: float
    count: int

    @property
    def sure(self) -> bool:
        return abs(self.mean) > self.half

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half:.3f}" if math.isfinite(self.half) else f"{self.mean:.3f}"

    @property
    def points(self) -> str:
        """The mean as a difference, in points."""
        return f"{self.mean * 100:+.1f}" + (f" ± {self.half * 100:.1f}" if math.isfinite(self.half) else " (one seed)")


def estimate(values: Sequence[float], error: float = ERROR) -> Estimate:
    """The mean of ``values`` with Student's t interval, which misses with probability ``error``."""
    from scipy.stats import t

    if len(values) < 2:
        return Estimate(fmean(values), math.inf, len(values))
    half = float(t.ppf(1.0 - error / 2.0, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Estimate(fmean(values), half, len(values))


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

"""Bootstrap intervals of means, unbiased pass@k and pass^k, and the evenness of counts.

pass@k is success in at least one of k samples, and pass^k in all of them, from n samples with c successes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

KINDS = 10  # fewest kinds of tasks that stand for others; fewer are strata, such as levels of difficulty


class Intervals(Protocol):
    """Parameters of bootstrap intervals: the number of resamples and the level."""

    @property
    def bootstrap(self) -> int: ...

    @property
    def confidence(self) -> float: ...


def bootstrap(values: Sequence[float], config: Intervals, seed: int, kinds: Sequence[str] = ()) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979) from ``config.bootstrap`` resamples of tasks.

    ``kinds`` names the kind of each task. Tasks of one kind succeed and fail together, so with KINDS kinds or more each resample
    draws kinds, and then tasks of each drawn kind (Davison and Hinkley 1997, section 3.8).
    """
    import numpy as np

    data = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    if len(set(kinds)) < KINDS:
        means = data[rng.integers(0, len(data), (config.bootstrap, len(data)))].mean(axis=1)
    else:
        _, kind_of, sizes = np.unique(np.asarray(kinds), return_inverse=True, return_counts=True)
        data = data[np.argsort(kind_of, kind="stable")]
        starts = np.cumsum(sizes) - sizes
        means = np.empty(config.bootstrap)
        for row, drawn in enumerate(rng.integers(0, len(sizes), (config.bootstrap, len(sizes)))):
            count = sizes[drawn]
            tasks = np.repeat(starts[drawn], count) + (rng.random(count.sum()) * np.repeat(count, count)).astype(int)
            means[row] = data[tasks].mean()
    outside = (1.0 - config.confidence) / 2.0
    low, high = np.quantile(means, [outside, 1.0 - outside])
    return float(low), float(high)


def unit(kinds: int) -> str:
    """What an interval is over, in words, if its tasks are of so many kinds."""
    return f"{kinds} kinds of tasks" if kinds >= KINDS else "tasks"


def evenness(counts: Mapping[str, int], most: int) -> float | None:
    """H(counts) / log ``most``: the entropy as a share of its maximum, in [0, 1]. None without counts or choice."""
    total = sum(counts.values())
    if not total or most < 2:
        return None
    shares = [count / total for count in counts.values()]
    return (0.0 - sum(share * math.log(share) for share in shares)) / math.log(most)  # 0.0, not -0.0, for one kind


def pass_at(samples: int, successes: int, k: int) -> float:
    """pass@k: the chance that at least one of k samples succeeds (Chen et al., arXiv 2107.03374, equation 1)."""
    return 1.0 - math.comb(samples - successes, k) / math.comb(samples, k)


def pass_every(samples: int, successes: int, k: int) -> float:
    """pass^k: the chance that all of k samples succeed (Yao et al., tau-bench, arXiv 2406.12045, section 2.2)."""
    return math.comb(successes, k) / math.comb(samples, k)


def depths(samples: int) -> list[int]:
    """The k to report: the powers of two below ``samples``, then ``samples``. k = 1 is the success rate itself."""
    powers = [1 << power for power in range(1, samples.bit_length()) if 1 << power < samples]
    return [*powers, samples] if samples > 1 else []


def several(counts: Sequence[tuple[int, int]]) -> dict[str, float]:
    """``pass@k`` and then ``pass^k`` for each k of ``depths``: the mean over the tasks with at least k samples.

    ``counts`` holds (samples, successes) for each task.
    """
    most = max((samples for samples, _ in counts), default=1)
    means = {}
    for sign, chance in (("@", pass_at), ("^", pass_every)):
        for k in depths(most):
            chances = [chance(samples, successes, k) for samples, successes in counts if samples >= k]
            means[f"pass{sign}{k}"] = sum(chances) / len(chances)
    return means

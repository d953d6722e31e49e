"""What a study would take and what it could see, before hours are spent on it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, variance

from coevolve.core.statistics import ERROR
from coevolve.readers.study_results import Result, gains

POWER = 0.8  # share of studies that would tell such a difference from none
USUAL = 0.054  # standard deviation of a difference where nothing is known: that of the 55 pairs of studies/ablation, on `test`
SEEDS = (3, 5, 10, 20)  # whose precision is shown beside the study's own


@dataclass(frozen=True, slots=True)
class Sight:
    """Of ``seeds``: half of the interval of a difference between two arms, paired by seed, and the smallest difference that
    ``POWER`` of such studies would tell from none. Both as shares; nothing is corrected for the number of claims.
    """

    seeds: int
    half: float
    smallest: float


def sight(deviation: float, seeds: int) -> Sight:
    """By Student's t, central and noncentral, for differences of this standard deviation from seed to seed."""
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    error = deviation / math.sqrt(seeds)
    edge = float(t.ppf(1 - ERROR / 2, seeds - 1))
    # in standard errors: the noncentrality at which the statistic is above the edge with this chance
    shift = brentq(lambda one: nct.sf(edge, seeds - 1, one) - POWER, 0.0, 50.0)
    return Sight(seeds, edge * error, float(shift) * error)


def deviation(results: Sequence[Result], panel: str) -> tuple[float, int] | None:
    """Standard deviation from seed to seed of the difference of two arms on ``panel``, and of how many pairs of arms it is the mean
    (of variances); None where no two arms share two seeds.
    """
    arms = dict.fromkeys(one.arm for one in results)
    paired = [gains(results, ours, theirs, panel) for ours, theirs in combinations(arms, 2)]
    found = [variance(one) for one in paired if len(one) > 1]
    return (math.sqrt(fmean(found)), len(found)) if found else None

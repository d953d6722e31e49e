"""Plan a study: the order of its runs, and their precision."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, variance

from coevolve.core.statistics import ERROR
from coevolve.studies.study_results import Result, gains

POWER = 0.8  # share of studies that would detect the difference
USUAL = (
    0.054  # standard deviation of a difference if it is unknown: that of the 55 pairs of studies/ablation, on `test`
)
SEEDS = (3, 5, 10, 20)  # numbers of seeds to show in addition to the study's own


def in_turns(runs: Sequence[tuple[str, int]], jobs: int) -> list[tuple[str, int]]:
    """``runs`` (arm, seed) in an order in which ``jobs`` seeds take turns.

    Runs of a seed share stages through DVC's run cache. If they ran at the same time, each would compute them.
    """
    seeds = list(dict.fromkeys(seed for _, seed in runs))
    arms = list(dict.fromkeys(arm for arm, _ in runs))
    return sorted(runs, key=lambda run: (seeds.index(run[1]) // jobs, arms.index(run[0]), seeds.index(run[1])))


@dataclass(frozen=True, slots=True)
class Sight:
    """The precision with ``seeds``: half of the interval of a difference between two arms, paired by seed, and the smallest difference
    that the share ``POWER`` of such studies would detect. Both are shares, without a correction for the number of claims.
    """

    seeds: int
    half: float
    smallest: float


def sight(deviation: float, seeds: int) -> Sight:
    """The precision by Student's t, central and noncentral, for differences with this standard deviation over seeds."""
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    error = deviation / math.sqrt(seeds)
    edge = float(t.ppf(1 - ERROR / 2, seeds - 1))
    # in standard errors: the noncentrality at which the statistic exceeds the edge with probability POWER
    shift = brentq(lambda one: nct.sf(edge, seeds - 1, one) - POWER, 0.0, 50.0)
    return Sight(seeds, edge * error, float(shift) * error)


def deviation(results: Sequence[Result], panel: str) -> tuple[float, int] | None:
    """The standard deviation over seeds of the difference of two arms on ``panel``, and the number of pairs of arms behind it.

    It comes from the mean of the pairs' variances. None if no two arms share two seeds.
    """
    arms = dict.fromkeys(one.arm for one in results)
    paired = [gains(results, ours, theirs, panel) for ours, theirs in combinations(arms, 2)]
    found = [variance(one) for one in paired if len(one) > 1]
    return (math.sqrt(fmean(found)), len(found)) if found else None

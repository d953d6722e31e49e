"""Means over seeds with their intervals, and claims of a study: written before its runs, and tested together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Annotated

from pydantic import Field

from coevolve.core.section import Section

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


Share = Annotated[float, Field(ge=-1.0, le=1.0)]


class Claim(Section):
    """The claim that ``arm`` is above ``over`` on ``panel``: by ``mean`` on average, and significantly by more than ``clear``.

    Both are shares: 0.05 is 5 points. 0 and 0 claim that the arm is better, -0.05 and -0.05 that it is at most 5 points worse.
    """

    arm: str
    over: str
    panel: str
    mean: Share = 0.0
    clear: Share = 0.0


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """The ``gain`` over seeds with its interval at the claim's corrected level, and the corrected ``p``."""

    claim: Claim
    gain: Estimate
    p: float

    @property
    def row(self) -> list[str]:
        """The cells of the table of claims: claim, seeds, difference in points, p, verdict."""
        claim = self.claim
        verdict = "holds"
        if self.gain.mean < claim.mean:
            verdict = f"missed by {(claim.mean - self.gain.mean) * 100:.1f} points"
        elif self.p >= ERROR or self.gain.mean <= claim.clear:
            verdict = f"inconclusive: the interval includes {claim.clear * 100:g}"
        asked = f"by {claim.mean * 100:g} points or more, clear of {claim.clear * 100:g}"
        wanted = f"{claim.arm} over {claim.over} on {claim.panel}: {asked}"
        return [wanted, str(self.gain.count), self.gain.points, f"{self.p:.3f}", verdict]


def judge(gains: Sequence[tuple[Claim, Sequence[float]]]) -> list[ClaimVerdict]:
    """The verdict on each claim, from the differences by seed. Claims with fewer than two seeds are omitted.

    The test is Student's t, paired by seed and two-sided, of the difference against ``clear``. p is corrected by Holm (A simple
    sequentially rejective multiple test procedure, 1979): the k-th smallest p of m claims is multiplied by m - k + 1, and is at
    least as large as the corrected p before it. Its interval has the confidence 1 - ERROR / (m - k + 1). From the first p on that is
    not below ERROR, k is that of this p for all further intervals, as in Strassburger and Bretz (Compatible simultaneous lower
    confidence bounds for the Holm procedure and other Bonferroni-based closed tests, 2008).
    """
    tested = [(claim, values) for claim, values in gains if len(values) > 1]
    raw = [_p(values, claim.clear) for claim, values in tested]
    verdicts: dict[int, ClaimVerdict] = {}
    least, shared = 0.0, None
    for rank, index in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
        claim, values = tested[index]
        share = len(raw) - rank
        least = max(least, min(1.0, raw[index] * share))
        if shared is None and least >= ERROR:
            shared = share
        verdicts[index] = ClaimVerdict(claim, estimate(values, ERROR / (shared or share)), least)
    return [verdicts[index] for index in range(len(raw))]


def _p(values: Sequence[float], against: float) -> float:
    from scipy.stats import ttest_1samp

    if len(set(values)) == 1:  # no variance to test against
        return 1.0 if values[0] == against else 0.0
    return float(ttest_1samp(values, against).pvalue)

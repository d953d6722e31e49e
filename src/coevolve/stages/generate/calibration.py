"""Compare the trained generator with the untrained one, on tasks of the same iteration that the same agent plays.

If the trained generator's tasks lie closer to α than the untrained generator's, it has learned. If they only lie closer than an
iteration ago, the agent may be the cause.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from coevolve.core.records import Generation
from coevolve.core.stage_summary import StageSummary
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.rewards import distance, rewards
from coevolve.stages.generate.spec_outcomes import ACCEPTED

OFF, OFF_CONTROL = "distance to alpha", "distance to alpha, untrained"
OFF_DIFFERENCE = "distance to alpha over untrained"
MIDDLE_SHARE = "share solved about half the time"
RESAMPLES = 2000
MIDDLE = (0.4, 0.6)  # shares of solved attempts that count as hitting one half


def with_generator(summary: StageSummary, new: Sequence[Generation], config: Generate, seed: int) -> StageSummary:
    """The ``summary`` of stage `verify` with the figures of this iteration's generations, if there are any."""
    if not new:
        return summary
    trained = [generation for generation in new if not generation.control]
    control = [generation for generation in new if generation.control]
    distances, control_distances = _distances(trained, config), _distances(control, config)
    outcomes = Counter(generation.outcome for generation in trained)
    worth = rewards(trained, config)
    shares = [generation.successes / generation.episodes for generation in trained if generation.episodes]
    figures: dict[str, int | float | None] = {
        "realized specs": outcomes[ACCEPTED] / len(trained) if trained else None,
        OFF: fmean(distances) if distances else None,
        OFF_CONTROL: fmean(control_distances) if control_distances else None,
        "generator reward": fmean(worth.values()) if worth else None,
        MIDDLE_SHARE: fmean(MIDDLE[0] <= share <= MIDDLE[1] for share in shares) if shares else None,
        **{f"specs: {reason}": count for reason, count in sorted(outcomes.items())},
    }
    if min(len(distances), len(control_distances)) > 1:
        mean, low, high = difference(distances, control_distances, seed)
        bounds = {f"{OFF_DIFFERENCE}, lower bound": low, f"{OFF_DIFFERENCE}, upper bound": high}
        figures |= {OFF_DIFFERENCE: mean, **bounds}
    plots = {**summary.plots, "distance of the pass rate to alpha": [OFF, OFF_CONTROL]}
    return replace(summary, figures={**summary.figures, **figures}, plots=plots)


def _distances(generations: Sequence[Generation], config: Generate) -> list[float]:
    """|p - α| of each accepted and played generation, with p = (k + 1)/(n + 2)."""
    return [distance(generation, config.alpha) for generation in generations if generation.episodes]


def difference(trained: Sequence[float], control: Sequence[float], seed: int) -> tuple[float, float, float]:
    """The mean of ``trained`` minus that of ``control``, and its 95 % interval by percentile bootstrap (Efron, 1979)."""
    from scipy.stats import bootstrap

    def gap(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], axis: int) -> Any:
        return left.mean(axis=axis) - right.mean(axis=axis)

    rng = np.random.default_rng(seed)
    samples = (trained, control)
    result = bootstrap(samples, gap, vectorized=True, n_resamples=RESAMPLES, method="percentile", rng=rng)
    low, high = result.confidence_interval
    return fmean(trained) - fmean(control), float(low), float(high)

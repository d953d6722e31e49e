"""Did the generator learn, or did the agent move? Both generators' tasks of one iteration are played by the same agent.

A trained generator whose tasks lie closer to α than an untrained one's of the same iteration has learned; one that is only closer than
it was an iteration ago may owe that to the agent.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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
RESAMPLES = 2000
MIDDLE = (0.4, 0.6)  # shares of solved attempts that count as hitting one half


def with_generator(said: StageSummary, new: Sequence[Generation], own: Generate, seed: int) -> StageSummary:
    """``said`` of stage `verify`, and what came of this iteration's generations, if there were any."""
    if not new:
        return said
    ours, control = ([one for one in new if one.control == apart] for apart in (False, True))
    lies = {False: _distances(ours, own), True: _distances(control, own)}
    outcomes = Counter(one.outcome for one in ours)
    worth = rewards(ours, own)
    played = [one.successes / one.episodes for one in ours if one.episodes]
    figures: dict[str, int | float | None] = {
        "realized specs": outcomes[ACCEPTED] / len(ours) if ours else None,
        OFF: fmean(lies[False]) if lies[False] else None,
        OFF_CONTROL: fmean(lies[True]) if lies[True] else None,
        "generator reward": fmean(worth.values()) if worth else None,
        "share solved about half the time": fmean(MIDDLE[0] <= one <= MIDDLE[1] for one in played) if played else None,
        **{f"specs: {reason}": count for reason, count in sorted(outcomes.items())},
    }
    if min(map(len, lies.values())) > 1:
        figures |= _compared(lies, seed)
    plots = {**said.plots, "distance of the pass rate to alpha": [OFF, OFF_CONTROL]}
    return replace(said, figures={**said.figures, **figures}, plots=plots)


def _distances(generations: Sequence[Generation], own: Generate) -> list[float]:
    """|p - α| of what was accepted and played, p by (k + 1)/(n + 2)."""
    return [distance(one, own.alpha) for one in generations if one.episodes]


def difference(ours: Sequence[float], control: Sequence[float], seed: int) -> tuple[float, float, float]:
    """The mean of ``ours`` less that of ``control``, and its 95 % interval: percentile bootstrap over both (Efron, 1979)."""
    from scipy.stats import bootstrap

    def gap(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], axis: int) -> Any:
        return one.mean(axis=axis) - other.mean(axis=axis)

    rng = np.random.default_rng(seed)
    found = bootstrap((ours, control), gap, vectorized=True, n_resamples=RESAMPLES, method="percentile", rng=rng)
    low, high = found.confidence_interval
    return fmean(ours) - fmean(control), float(low), float(high)


def _compared(lies: Mapping[bool, Sequence[float]], seed: int) -> dict[str, int | float | None]:
    mean, low, high = difference(lies[False], lies[True], seed)
    name = "distance to alpha over untrained"
    return {name: mean, f"{name}, lower bound": low, f"{name}, upper bound": high}

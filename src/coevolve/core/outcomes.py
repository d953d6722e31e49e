"""What became of the tasks of frozen panels, and its statistics: success with bootstrap confidence intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from coevolve.core.pass_at_k import several
from coevolve.core.seeding import derive_seed
from coevolve.core.trajectories import StopReason

OUTCOMES = "outcomes.jsonl"  # in evaluations/t, and an artifact of the run that a model version comes from


class Intervals(Protocol):
    """How confidence intervals are drawn: resamples, and level."""

    @property
    def bootstrap(self) -> int: ...

    @property
    def confidence(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """One episode at a task of a panel."""

    panel: str
    task_id: str
    category: str
    score: float
    success: bool
    stop_reason: str
    turns: int
    tokens: int
    checks: dict[str, bool]


@dataclass(frozen=True, slots=True)
class PanelMetrics:
    """A policy on a panel: success rate with its confidence interval over tasks, mean score, turns and tokens of its episodes, and
    how they ended.
    """

    tasks: int
    success: float
    low: float
    high: float
    score: float
    turns: float
    tokens: float
    stop_reasons: dict[str, int]
    episodes: int = 0
    several: dict[str, float] = field(default_factory=dict)  # pass@k and pass^k, where tasks were played several times

    @property
    def tokens_per_success(self) -> float | None:
        """Tokens that the agent generates for each success, those of its failures included; None without a success."""
        return self.tokens / self.success if self.success else None


def metrics(outcomes: Sequence[Outcome], config: Intervals, seed: int) -> dict[str, PanelMetrics]:
    """By panel, in the order of ``outcomes``."""
    found = {}
    for name in dict.fromkeys(one.panel for one in outcomes):
        ours = [one for one in outcomes if one.panel == name]
        rates = list(solved(ours, name).values())
        low, high = interval(rates, config, derive_seed(seed, "bootstrap", name))
        ends = {str(reason): sum(one.stop_reason == reason for one in ours) for reason in StopReason}
        found[name] = PanelMetrics(
            tasks=len(rates),
            success=float(np.mean(rates)),
            low=low,
            high=high,
            score=float(np.mean([one.score for one in ours])),
            turns=float(np.mean([one.turns for one in ours])),
            tokens=float(np.mean([one.tokens for one in ours])),
            stop_reasons={name: count for name, count in ends.items() if count},
            episodes=len(ours),
            several=passes(ours),
        )
    return found


def by_task(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """The episodes of each task, in their order."""
    found: dict[str, list[Outcome]] = {}
    for one in outcomes:
        found.setdefault(one.task_id, []).append(one)
    return found


def solved(outcomes: Iterable[Outcome], panel: str) -> dict[str, float]:
    """By task of ``panel``, the share of its episodes that succeed: 1 or 0 where each was played once."""
    found = by_task(one for one in outcomes if one.panel == panel)
    return {task: sum(one.success for one in many) / len(many) for task, many in found.items()}


def passes(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """pass@k and pass^k over the tasks of ``outcomes``; empty where each was played once."""
    return several([(len(many), sum(one.success for one in many)) for many in by_task(outcomes).values()])


def interval(values: Sequence[float], config: Intervals, seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979), by ``config.bootstrap`` resamples of tasks."""
    data = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(0, len(data), (config.bootstrap, len(data)))].mean(axis=1)
    outside = (1.0 - config.confidence) / 2.0
    low, high = np.quantile(means, [outside, 1.0 - outside])
    return float(low), float(high)


def paired_interval(
    base: Mapping[str, float], challenger: Mapping[str, float], config: Intervals, seed: int
) -> tuple[float, float, float]:
    """Mean gain of ``challenger`` over ``base`` (scores by task) and its interval, over the tasks of both.

    Pairing by task takes the tasks' difficulty out of the comparison.
    """
    shared = [task for task in base if task in challenger]
    gains = [challenger[task] - base[task] for task in shared]
    low, high = interval(gains, config, seed)
    return float(np.mean(gains)), low, high

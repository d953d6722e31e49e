"""Outcomes of episodes on frozen panels, and success rates with bootstrap confidence intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from coevolve.core.seeding import derive_seed
from coevolve.core.statistics import Intervals, bootstrap, several
from coevolve.core.trajectories import StopReason, Trajectory, unread_note

LISTED = 25  # most kinds of tasks in a printed table
OUTCOMES = "outcomes.jsonl"  # a file in evaluations/t, and an artifact of the tracked run behind a model version


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one episode on a task of a panel."""

    panel: str
    task_id: str
    category: str
    score: float
    success: bool
    stop_reason: str
    turns: int
    tokens: int
    checks: dict[str, bool]
    unread: int = 0  # replies with a call that could not be read
    unread_reply: str = ""  # the first of them
    cause: str = ""  # of the episode's interruption


Episode = TypeVar("Episode", Outcome, Trajectory)


@dataclass(frozen=True, slots=True)
class PanelMetrics:
    """A policy's results on a panel.

    They are the success rate with its confidence interval, the success on each kind of task, the means of score, turns and tokens over
    episodes, and the counts of stop reasons.
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
    several: dict[str, float] = field(default_factory=dict)  # pass@k and pass^k, if tasks were played several times
    kinds: dict[str, float] = field(default_factory=dict)

    @property
    def tokens_per_success(self) -> float | None:
        """Tokens that the agent generates per success, including those of failures; None without a success."""
        return self.tokens / self.success if self.success else None


def metrics(outcomes: Sequence[Outcome], config: Intervals, seed: int) -> dict[str, PanelMetrics]:
    """The metrics of each panel, in the order of ``outcomes``."""
    by_panel = {}
    for name in dict.fromkeys(outcome.panel for outcome in outcomes):
        played = [outcome for outcome in outcomes if outcome.panel == name]
        success, kinds = solved(played, name), kinds_of(played)
        rates = list(success.values())
        low, high = bootstrap(rates, config, derive_seed(seed, "bootstrap", name), [kinds[task] for task in success])
        ends = {str(reason): sum(outcome.stop_reason == reason for outcome in played) for reason in StopReason}
        by_panel[name] = PanelMetrics(
            tasks=len(rates),
            success=float(np.mean(rates)),
            low=low,
            high=high,
            score=float(np.mean([outcome.score for outcome in played])),
            turns=float(np.mean([outcome.turns for outcome in played])),
            tokens=float(np.mean([outcome.tokens for outcome in played])),
            stop_reasons={name: count for name, count in ends.items() if count},
            episodes=len(played),
            several=passes(played),
            kinds={
                kind: float(np.mean([rate for task, rate in success.items() if kinds[task] == kind]))
                for kind in dict.fromkeys(kinds.values())
            },
        )
    return by_panel


def unread(outcomes: Sequence[Outcome]) -> list[str]:
    """A note on the replies of ``outcomes`` with a call that could not be read, if there are many."""
    first = next((outcome.unread_reply for outcome in outcomes if outcome.unread), "")
    return unread_note(sum(outcome.unread for outcome in outcomes), sum(outcome.turns for outcome in outcomes), first)


def by_task(episodes: Iterable[Episode]) -> dict[str, list[Episode]]:
    """The episodes of each task, in their order."""
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(episode.task_id, []).append(episode)
    return groups


def solved(outcomes: Iterable[Outcome], panel: str) -> dict[str, float]:
    """For each task of ``panel``, the share of its episodes that succeed: 1 or 0 if it was played once."""
    episodes = by_task(outcome for outcome in outcomes if outcome.panel == panel)
    return {task: sum(outcome.success for outcome in played) / len(played) for task, played in episodes.items()}


def kinds_of(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The kind of each task."""
    return {outcome.task_id: outcome.category for outcome in outcomes}


def passes(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """pass@k and pass^k over the tasks of ``outcomes``; empty if each was played once."""
    return several([(len(played), sum(outcome.success for outcome in played)) for played in by_task(outcomes).values()])


def paired_interval(
    base: Mapping[str, float],
    challenger: Mapping[str, float],
    config: Intervals,
    seed: int,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> tuple[float, float, float]:
    """Mean gain of ``challenger`` over ``base`` (scores by task) with its interval, over the tasks of both.

    Pairing by task removes the tasks' difficulty from the comparison. ``kinds`` holds the kind of each task.
    """
    shared = [task for task in base if task in challenger]
    gains = [challenger[task] - base[task] for task in shared]
    low, high = bootstrap(gains, config, seed, [kinds.get(task, "") for task in shared])
    return float(np.mean(gains)), low, high

"""How much an agent learns from a task that it solves with probability p, and estimates of p.

A shape maps p in [0, 1] to [0, 1]; its maximum is 1. Shapes favour tasks that the agent solves about half the time: a
group of episodes that all succeed, or that all fail, has zero advantages and teaches nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coevolve.core.records import Attempt

ALPHA, BETA = 0.5, 8.0  # top and narrowness of the bell
SURE = 0.95  # confidence of a bound
ENOUGH = 8  # episodes without a success after which a task counts as unsolved
KEPT = 0.5  # weight of earlier visits at the next visit: an earlier policy made them
Shape = Callable[[float], float]


def bell(p: float, alpha: float = ALPHA, beta: float = BETA) -> float:
    """exp(-beta (p - alpha)²): the reward of a generator in GenEnv (arXiv 2512.19682), which leaves beta open."""
    return math.exp(-beta * (p - alpha) ** 2)


def variance(p: float) -> float:
    """4 p (1 - p): the variance of an outcome over its maximum; SFL (arXiv 2408.15099) calls it learnability."""
    return 4.0 * p * (1.0 - p)


SHAPES: dict[str, Shape] = {"bell": bell, "variance": variance}


@dataclass(frozen=True, slots=True)
class Record:
    """``successes`` in ``attempts`` episodes. Older episodes may count in part."""

    successes: float = 0.0
    attempts: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.successes <= self.attempts:
            raise ValueError(f"{self.successes} successes in {self.attempts} attempts")

    def after(self, visit: Attempt) -> "Record":
        """This record with a later visit of the same task. The weight of earlier visits shrinks by the factor ``KEPT``.

        A visit in which the environment failed changes nothing.
        """
        if not visit.size:
            return self
        return Record(self.successes * KEPT + visit.successes, self.attempts * KEPT + visit.size)

    @property
    def chance(self) -> float:
        """(k + 1) / (n + 2): the posterior mean of p after k successes in n attempts, with a uniform prior (Laplace)."""
        return (self.successes + 1.0) / (self.attempts + 2.0)


def ceiling(attempts: int) -> float:
    """The largest p that is still likely after n attempts without success: 1 - (1 - SURE)^(1/n) (Clopper and Pearson)."""
    return 1.0 - (1.0 - SURE) ** (1.0 / attempts) if attempts else 1.0


Records = Mapping[str, Record]  # by task


def recorded(records: Records, attempts: Iterable[Attempt]) -> dict[str, Record]:
    """``records`` with further ``attempts`` added in order. A task without an episode that counts gets an empty record."""
    updated = dict(records)
    for attempt in attempts:
        updated[attempt.task_id] = updated.get(attempt.task_id, Record()).after(attempt)
    return updated


def learnability(records: Records) -> float | None:
    """The mean of ``variance`` over ``records``: 1 if every task is solved half the time. None without attempts."""
    worth = [variance(record.chance) for record in records.values() if record.attempts]
    return math.fsum(worth) / len(worth) if worth else None

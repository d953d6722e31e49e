"""How much there is to learn from what an agent solves with probability p, and what is known of p.

A shape maps p in [0, 1] to [0, 1]; its maximum is 1. Shapes favour what the agent solves about half the time: a group of
episodes that all succeed, or all fail, has no advantages, and so teaches nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coevolve.core.records import Attempt

ALPHA, BETA = 0.5, 8.0  # of the bell: its top, and how narrow it is
SURE = 0.95  # confidence of a bound
ENOUGH = 8  # episodes without a success, after which something counts as unsolved
KEPT = 0.5  # what attempts of earlier visits count at the next: they are another policy's
Shape = Callable[[float], float]


def bell(p: float, alpha: float = ALPHA, beta: float = BETA) -> float:
    """exp(-beta (p - alpha)²): the reward of a generator in GenEnv (arXiv 2512.19682), which leaves beta open."""
    return math.exp(-beta * (p - alpha) ** 2)


def variance(p: float) -> float:
    """4 p (1 - p): of an outcome, as share of the largest; called learnability in SFL (arXiv 2408.15099)."""
    return 4.0 * p * (1.0 - p)


SHAPES: dict[str, Shape] = {"bell": bell, "variance": variance}


@dataclass(frozen=True, slots=True)
class Record:
    """``successes`` in ``attempts`` episodes at one thing. What is older may count in part."""

    successes: float = 0.0
    attempts: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.successes <= self.attempts:
            raise ValueError(f"{self.successes} successes in {self.attempts} attempts")

    def then(self, successes: float, attempts: float, kept: float = 1.0) -> "Record":
        """With further attempts; those so far count ``kept`` of what they did."""
        return Record(self.successes * kept + successes, self.attempts * kept + attempts)

    def after(self, visit: Attempt) -> "Record":
        """With a later visit of the same task."""
        return self.then(visit.successes, visit.size, KEPT)

    @property
    def chance(self) -> float:
        """(k + 1) / (n + 2): the mean of p after k successes in n attempts, all p being equally likely before (Laplace)."""
        return (self.successes + 1.0) / (self.attempts + 2.0)

    @property
    def spread(self) -> float:
        """The standard deviation of p, of the same posterior Beta(k + 1, n - k + 1)."""
        return math.sqrt(self.chance * (1.0 - self.chance) / (self.attempts + 3.0))


def ceiling(attempts: int, sure: float = SURE) -> float:
    """The largest p that is still likely after no success in so many attempts: 1 - (1 - sure)^(1/n) (Clopper and Pearson)."""
    return 1.0 - (1.0 - sure) ** (1.0 / attempts) if attempts else 1.0


Records = Mapping[str, Record]  # by task


def recorded(records: Records, attempts: Iterable[Attempt]) -> dict[str, Record]:
    """``records`` with further ``attempts``, in their order."""
    found = dict(records)
    for one in attempts:
        found[one.task_id] = found.get(one.task_id, Record()).after(one)
    return found


def learnability(records: Records) -> float | None:
    """The mean of ``variance`` over the tasks that were tried: 1 if all are solved half the time, None of none."""
    worth = [variance(one.chance) for one in records.values()]
    return math.fsum(worth) / len(worth) if worth else None

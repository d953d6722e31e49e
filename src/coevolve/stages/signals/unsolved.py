"""Unsolved: a task that the agent fails every time.

This kind is not in CoEvolve. A task that always fails has no group with both outcomes and was never solved, so none of
the paper's kinds fires. After n failures in a row the chance of success is below 1 - 0.05^(1/n), with 95 % confidence.
"""

from collections import deque

from coevolve.core.learnability import ENOUGH, ceiling
from coevolve.core.success import is_success
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kind import Firing, Kind, examples, moment
from coevolve.stages.signals.table import Visit

VISITS = 2  # latest visits that the rule considers


class Unsolved:
    """See ``coevolve.stages.signals.kind.TaskRule``. The weakness is the certainty of failure, 1 - bound."""

    def __init__(self, config: Signals) -> None:
        self._last: deque[Visit] = deque(maxlen=VISITS)

    def see(self, visit: Visit) -> None:
        self._last.append(visit)

    def finding(self) -> Firing | None:
        attempts = [visit.attempt for visit in self._last]
        episodes = sum(attempt.size for attempt in attempts)
        solved = any(attempt.successes or is_success(attempt.score) for attempt in attempts)
        if solved or episodes < ENOUGH or not self._last[-1].current:
            return None
        bound = ceiling(episodes)
        evidence = {
            "episodes": episodes,
            "bound": bound,
            "scores": [attempt.score for attempt in attempts],
            "steps": [moment(visit) for visit in self._last],
        }
        return Firing(evidence, 1.0 - bound, examples(self._last[-1].failed, []))


UNSOLVED = Kind(
    "unsolved",
    "It fails this task every time.",
    f"no success in {ENOUGH} or more episodes of the last {VISITS} visits (coevolve's own kind, not the paper's)",
    of_task=Unsolved,
)

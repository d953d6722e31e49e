"""Boundary: a task at the edge of the agent's abilities.

CoEvolve (arXiv 2604.15840): within one training step, the K trajectories of a task hold both outcomes.
"""

from collections import deque

from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kind import GROUPS, Firing, Kind, examples, moment
from coevolve.stages.signals.table import Visit


def boundary(size: int, successes: int) -> bool:
    """Whether a group of ``size`` trajectories with ``successes`` successes holds both outcomes."""
    return 0 < successes < size


class Boundary:
    """See ``coevolve.stages.signals.kind.TaskRule``. The weakness is the share of failures in the latest visit."""

    def __init__(self, config: Signals) -> None:
        self._mixed: deque[Visit] = deque(maxlen=GROUPS)
        self._latest: Visit | None = None
        self._firings = self._visits = 0

    def see(self, visit: Visit) -> None:
        self._latest = visit
        self._visits += visit.current
        if visit.current and boundary(visit.attempt.size, visit.attempt.successes):
            self._firings += 1
            self._mixed.append(visit)

    def finding(self) -> Firing | None:
        if self._latest is None or not self._mixed:
            return None
        last, latest = self._mixed[-1], self._latest.attempt.successes / self._latest.attempt.size
        evidence = {
            "steps": [moment(visit) for visit in self._mixed],
            "successes": [visit.attempt.successes for visit in self._mixed],
            "sizes": [visit.attempt.size for visit in self._mixed],
            "mixed": self._firings,
            "visits": self._visits,
            "latest_success": latest,
        }
        return Firing(evidence, 1.0 - latest, examples(last.failed, last.passed))


BOUNDARY = Kind(
    "boundary",
    "Of several attempts in the same training step some succeed and some fail.",
    "the episodes of one task in one step hold successes and failures",
    of_task=Boundary,
)

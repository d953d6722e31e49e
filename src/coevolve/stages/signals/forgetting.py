"""Forgetting: a task that the agent solved within its last W attempts, and now fails.

CoEvolve (arXiv 2604.15840): over the scores s of a task in the order of its attempts, position i fires if some
s_j >= 0.5 with i - W < j < i, and s_i < 0.5. The paper does not define an attempt. Here it is a visit of the task in one
training step, and its score is the mean of its group. This separates regression between visits from instability within
a visit, which is the boundary signal.
"""

from collections import deque

from coevolve.core.success import is_success
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kind import GROUPS, Firing, Kind, examples, moment
from coevolve.stages.signals.table import Visit


class Forgetting:
    """See ``coevolve.stages.signals.kind.TaskRule``. The time per visit does not depend on the window."""

    def __init__(self, config: Signals) -> None:
        self._window = config.window
        self._recent: deque[Visit] = deque(maxlen=config.window)
        self._since = config.window  # attempts since the last success
        self._forgotten: list[Visit] = []  # the window of the last firing
        self._firings = self._visits = 0

    def see(self, visit: Visit) -> None:
        self._recent.append(visit)
        self._visits += visit.current
        self._since += 1
        if is_success(visit.attempt.score):
            self._since = 0
        elif visit.current and self._since < self._window:
            self._firings += 1
            self._forgotten = list(self._recent)

    def finding(self) -> Firing | None:
        if not self._forgotten:
            return None
        *before, last = self._forgotten
        able = [visit.passed for visit in before if visit.passed]
        shown = self._forgotten[-GROUPS:]
        evidence = {
            "window": self._window,
            "scores": [visit.attempt.score for visit in shown],
            "steps": [moment(visit) for visit in shown],
            "firings": self._firings,
            "visits": self._visits,
        }
        return Firing(evidence, 1.0, examples(last.failed, able[-1] if able else []))


FORGETTING = Kind(
    "forgetting",
    "It once solved this task, and now fails it.",
    "a visit's mean score is below 0.5, and one of the W-1 visits before it was not",
    of_task=Forgetting,
)

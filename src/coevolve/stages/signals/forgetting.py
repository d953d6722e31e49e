"""Forgetting: a task that the agent could do within its last W attempts, and now cannot.

CoEvolve (arXiv 2604.15840): over the scores s of one task in the order of its attempts, position i fires if
some s_j >= 0.5 with i - W < j < i, and s_i < 0.5. An attempt is one visit of the task in one training step and
its score the mean of its group. The paper does not say; this keeps regression between visits apart from
instability within one, which is the boundary signal's.
"""

from collections.abc import Iterable, Iterator

from coevolve.core.success import is_success


def forgetting(scores: Iterable[float], window: int) -> Iterator[bool]:
    """For every attempt in order, whether it fires. Linear in time and constant in memory for any ``window``."""
    since = window  # attempts since the last success; from `window` on it is out of sight
    for score in scores:
        since += 1
        success = is_success(score)
        yield not success and since < window
        if success:
            since = 0

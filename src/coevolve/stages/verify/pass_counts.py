"""The episodes behind a pass rate. Apart from pass_rates.py, so that readers of the counts do not depend on rollouts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassCount:
    """Of the episodes ``played`` at a task, the number that count, and the ``successes`` among these ``episodes``.

    An episode in which the environment failed says nothing about the agent, so it does not count.
    """

    successes: int
    episodes: int
    played: int

    @property
    def rate(self) -> float | None:
        """The share of successes; None if no episode counts."""
        return self.successes / self.episodes if self.episodes else None

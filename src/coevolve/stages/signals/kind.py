"""What a kind of signal is. A kind is one file, which holds its rule, evidence and strength, and one line in ``kinds``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from coevolve.stages.signals.config import Signals
    from coevolve.stages.signals.table import Table, Visit

EXAMPLES = 8  # trajectories that a signal shows, at most: failed ones first, half of the places at most
GROUPS = 16  # groups or window positions listed in a signal's evidence, at most


@dataclass(frozen=True, slots=True)
class Firing:
    """That a rule fired: with which numbers, which trajectories show it, and how weak the agent is there, in [0, 1].

    ``weakness`` is that by the kind's own measure. ``pattern`` is the subject of a rule over the whole table; the subject of a
    rule over visits is their task.
    """

    evidence: dict[str, Any]
    weakness: float
    trajectory_ids: list[str]
    pattern: list[str] | None = None


class TaskRule(Protocol):
    """A fold over the visits of one task, those of history included; only current visits fire."""

    def see(self, visit: "Visit") -> None:
        """The next visit, in order of iteration and step."""
        ...

    def finding(self) -> Firing | None:
        """What the last visit that fired was, None if none did."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of weakness, with one of two rules: ``of_task`` begins a fold over a task's visits, ``of_table`` reads all.

    ``meaning`` says what such a weakness is, a sentence about the agent; ``condition`` when exactly the rule fires.
    """

    name: str
    meaning: str
    condition: str
    of_task: "Callable[[Signals], TaskRule] | None" = None
    of_table: "Callable[[Table, Signals], Iterable[Firing]] | None" = None


def examples(failed: list[str], passed: list[str]) -> list[str]:
    """Those that a signal shows: failed trajectories first."""
    return [*failed[: EXAMPLES // 2], *passed[: EXAMPLES // 2]]


def place(visit: "Visit") -> list[int]:
    """When a visit was: iteration and step."""
    return [visit.attempt.iteration, visit.attempt.step]

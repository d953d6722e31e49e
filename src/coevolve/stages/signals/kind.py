"""What a kind of signal is. A kind is one file, which holds its rule, evidence and strength, and one line in ``kinds``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from coevolve.core.difficulty import Record, Shape

if TYPE_CHECKING:
    from coevolve.stages.signals.config import Signals
    from coevolve.stages.signals.table import Table, Visit

EXAMPLES = 8  # trajectories that a signal shows, at most: failed ones first, half of the places at most
GROUPS = 16  # groups or window positions listed in a signal's evidence, at most


@dataclass(frozen=True, slots=True)
class Finding:
    """That a rule fired: with which numbers, which trajectories show it, and how weak the agent is there, in [0, 1].

    ``weakness`` is that by the kind's own measure. Where learnability is asked for instead, what there is to learn at the
    task or pattern counts as far as the rule's ``effect``, in [0, 1], goes. ``pattern`` is what a rule over the whole table
    speaks of, with the ``record`` of the episodes that hold it, where ``signals.shape`` asks for it; a rule over visits speaks of their task.
    """

    evidence: dict[str, Any]
    weakness: float
    effect: float
    trajectory_ids: list[str]
    pattern: list[str] | None = None
    record: Record | None = None

    def strength(self, record: Record, shape: Shape | None) -> float:
        """How strong a signal this is, in [0, 1], where ``record`` is that of the task that the rule looked at."""
        return self.weakness if shape is None else self.effect * shape((self.record or record).chance)


class TaskRule(Protocol):
    """A fold over the visits of one task, those of history included; only current visits fire."""

    def see(self, visit: "Visit") -> None:
        """The next visit, in order of iteration and step."""
        ...

    def finding(self) -> Finding | None:
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
    of_table: "Callable[[Table, Signals], Iterable[Finding]] | None" = None


def examples(failed: list[str], passed: list[str]) -> list[str]:
    """Those that a signal shows: failed trajectories first."""
    return [*failed[: EXAMPLES // 2], *passed[: EXAMPLES // 2]]


def place(visit: "Visit") -> list[int]:
    """When a visit was: iteration and step."""
    return [visit.attempt.iteration, visit.attempt.step]

"""The kinds of signals. A kind is a file with its rule, evidence and strength, an entry in ``extract.KINDS``, and a name in ``config``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.table import Table, Visit

EXAMPLES = 8  # most trajectories of a signal: at most half failed, at most half passed
GROUPS = 16  # most groups or window positions in a signal's evidence


@dataclass(frozen=True, slots=True)
class Firing:
    """The firing of a rule: its numbers, the trajectories that show it, and the agent's weakness in [0, 1].

    Each kind defines its own measure of ``weakness``. ``pattern`` is the subject of a rule over the whole table. The
    subject of a rule over visits is their task.
    """

    evidence: dict[str, Any]
    weakness: float
    trajectory_ids: list[str]
    pattern: list[str] | None = None


class TaskRule(Protocol):
    """A fold over the visits of a task, including those of history. Only current visits fire."""

    def see(self, visit: Visit) -> None:
        """Take the next visit, in order of iteration and step."""

    def finding(self) -> Firing | None:
        """The last firing; None if no visit fired."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of weakness with one of two rules: ``of_task`` begins a fold over a task's visits, ``of_table`` reads all.

    ``meaning`` describes the weakness in a sentence about the agent. ``condition`` says exactly when the rule fires.
    """

    name: str
    meaning: str
    condition: str
    of_task: Callable[[Signals], TaskRule] | None = None
    of_table: Callable[[Table, Signals], Iterable[Firing]] | None = None


def examples(failed: list[str], passed: list[str]) -> list[str]:
    """The trajectories of a signal: failed ones first."""
    return [*failed[: EXAMPLES // 2], *passed[: EXAMPLES // 2]]


def moment(visit: Visit) -> list[int]:
    """The iteration and the step of a visit."""
    return [visit.attempt.iteration, visit.attempt.step]

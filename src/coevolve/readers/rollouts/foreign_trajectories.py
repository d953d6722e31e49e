"""Rollouts of any trainer as trajectories, with an account of what was left out and of what the format does not say."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coevolve.core.errors import CoevolveError
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.core.untrusted import one_line
from coevolve.readers.chats import conversation, opening
from coevolve.readers.rollouts.match_tasks import SEVERAL, UNKNOWN
from coevolve.readers.rollouts.rollout_row import RolloutRow, Rows, SkippedRow

MESSAGE, DETAIL = re.compile(r"message \d+"), re.compile(r" \(.*|, found .*", re.DOTALL)  # what differs from row to row
MOST = 12  # reasons to list
FAILED = "rollouts that an error ended, which say nothing about the agent"
UNSTEPPED = "rollouts without a step, which count as one visit of their task, so forgetting cannot fire on them"


@dataclass
class RolloutAccount:
    """The number of ``kept`` rollouts, and the ``skipped``. ``reasons`` maps why to a number and the first address."""

    kept: int = 0
    failed: int = 0
    unstepped: int = 0
    tasks: set[str] = field(default_factory=set)
    skipped: list[dict[str, str]] = field(default_factory=list)
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict)

    def leave_out(self, where: str, reason: str) -> None:
        reason, where = one_line(reason), one_line(where)
        kind = DETAIL.sub("", MESSAGE.sub("a message", reason))
        count, first = self.reasons.get(kind, (0, where))
        self.reasons[kind] = (count + 1, first)
        self.skipped.append({"where": where, "reason": reason})

    def some(self, found: Iterator[Trajectory], where: str, remarks: dict[str, int]) -> Iterator[Trajectory]:
        """Yield ``found``. If it holds no rollout, raise a CoevolveError that lists the skipped ones by reason."""
        yield from found
        if not self.kept:
            raise CoevolveError(f"{where}: no rollout to read: {'; '.join(self.lines(remarks)) or 'it is empty'}")

    def lines(self, remarks: dict[str, int]) -> list[str]:
        """What a person must know about the rollouts, a line each."""
        lines = [
            f"{count} left out: {reason} (first: {first})"
            for reason, (count, first) in sorted(self.reasons.items())[:MOST]
        ]
        told = {**remarks, FAILED: self.failed, UNSTEPPED: self.unstepped}
        lines += [f"{text}: {count}" for text, count in told.items() if count]
        return lines


def trajectories(rows: Rows, task_of: Callable[[RolloutRow], str], account: RolloutAccount) -> Iterator[Trajectory]:
    """A trajectory for each rollout whose task is known. Its id is its address in the trainer's files."""
    for row in rows:
        if isinstance(row, SkippedRow):
            account.leave_out(row.where, row.reason)
            continue
        task_id = task_of(row)
        if task_id in (UNKNOWN, SEVERAL):
            account.leave_out(row.where, task_id)
            continue
        try:
            messages, calls = conversation(row.messages, row.where)
        except CoevolveError as error:
            account.leave_out(row.where, str(error).removeprefix(f"{row.where}: "))
            continue
        account.kept += 1
        account.failed += bool(row.failure)
        account.unstepped += row.step is None
        account.tasks.add(task_id)
        yield Trajectory(
            trajectory_id=row.trajectory_id or row.where,
            task_id=task_id,
            iteration=row.iteration,
            step=row.step or 0,
            group=0,
            sample=account.kept - 1,
            messages=messages,
            calls=calls if row.calls is None else row.calls,
            score=row.score,
            stop_reason=StopReason.ENVIRONMENT_FAILED if row.failure else StopReason.DONE,
            failure=row.failure,
        )


def named_or_opening(row: RolloutRow) -> str:
    """The id of a task that nobody else knows: the rollout's first name, or a hash of its first messages."""
    return next(iter(row.names), "") or opening(row.messages)

"""Turn rollouts of any trainer into trajectories, and count the rollouts that are left out and those without a step."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from coevolve.core.errors import CoevolveError
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.core.untrusted import one_line
from coevolve.rollouts.chats import conversation, opening
from coevolve.rollouts.match_tasks import REASONS
from coevolve.rollouts.rollout_row import RolloutRow, Rows, SkippedRow

MESSAGE, DETAIL = (
    re.compile(r"message \d+"),
    re.compile(r" \(.*|, found .*", re.DOTALL),
)  # parts of a reason that differ from row to row
MOST = 12  # reasons to list
FAILED = "rollouts that an error ended, which say nothing about the agent"
UNSTEPPED = "rollouts without a step, which count as one visit of their task, so forgetting cannot fire on them"


@dataclass
class RolloutAccount:
    """The number of ``kept`` rollouts, and the ``skipped``. ``reasons`` maps a reason to a count and the first address."""

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
        """Notes for the user: the rollouts that are left out, by reason, and peculiarities of the others."""
        lines = [
            f"{count} left out: {reason} (first: {first})"
            for reason, (count, first) in sorted(self.reasons.items())[:MOST]
        ]
        counts = {**remarks, FAILED: self.failed, UNSTEPPED: self.unstepped}
        return [*lines, *(f"{text}: {count}" for text, count in counts.items() if count)]


def trajectories(rows: Rows, task_of: Callable[[RolloutRow], str], account: RolloutAccount) -> Iterator[Trajectory]:
    """A trajectory for each rollout whose task is known. Its id is its address in the trainer's files."""
    for row in rows:
        if isinstance(row, SkippedRow):
            account.leave_out(row.where, row.reason)
            continue
        task_id = task_of(row)
        if task_id in REASONS:
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
            calls=_of_the_agent(row, calls) if row.calls is None else row.calls,
            score=row.score,
            stop_reason=StopReason.ENVIRONMENT_FAILED if row.failure else StopReason.DONE,
            failure=row.failure,
        )


def _of_the_agent(row: RolloutRow, calls: list[CallOutcome]) -> list[CallOutcome]:
    """The ``calls`` without those of examples in the prompt. The prompt's last request begins the first turn."""
    prompt = row.messages[: row.prompt_messages]
    roles = [message["role"] for message in prompt]
    if "assistant" not in roles:
        return calls
    _, examples = conversation(prompt, row.where)
    turns = max(roles.count("user") - 1, 0)
    return [replace(call, turn=call.turn - turns) for call in calls[len(examples) :]]


def named_or_opening(row: RolloutRow) -> str:
    """The id of a task that is not known: the file's, the rollout's first name, or a hash of its first messages."""
    return row.task_id or next(iter(row.names), "") or opening(row.messages, row.prompt_messages)

"""Turn rollouts of any trainer into trajectories, and count the rollouts that are left out and those without a step."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from coevolve.core.errors import CoevolveError
from coevolve.core.success import SUCCESS_THRESHOLD
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.core.untrusted import one_line, writable
from coevolve.policies.call_format import Tools
from coevolve.rollouts.chats import Unreadable, chat, opening
from coevolve.rollouts.rollout_row import RolloutRow, Rows, SkippedRow
from coevolve.stages.signals.table import UNSCORED

# parts of a reason that differ from row to row
MESSAGE, DETAIL = re.compile(r"message \d+"), re.compile(r" \((.*?)\)?$|, found (.*)$")
MOST = 12  # reasons to list
REFUSED = "refused calls"
UNANSWERED = "calls without an answer, not accepted"
FAILED = "rollouts that an error ended, which say nothing about the agent"
UNSTEPPED = "rollouts without a step, which count as one visit of their task, so forgetting cannot fire on them"
UNNAMED = "rollouts without a task id, known by their first messages: tasks that begin alike cannot be told apart (docs/concepts/signals.md)"
NO_SCORE = "no score or reward (--score of `coevolve import` and `signals` sets it)"
PARTIAL = f"scores between {SUCCESS_THRESHOLD:g} and 1, which count as success"
OUTSIDE = f"scores outside of 0 to 1, of which those of at least {SUCCESS_THRESHOLD:g} count as success"


@dataclass
class RolloutAccount:
    """The number of ``kept`` rollouts and of their ``calls``, their ``agents`` and ``tools``, and the ``skipped``.

    ``unnamed`` are the ids that we gave to tasks without one.

    ``reasons`` to skip a rollout, and ``notes`` about the others, map a text to a count and the first example.
    """

    kept: int = 0
    calls: int = 0
    tasks: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    agents: Counter[str] = field(default_factory=Counter)
    tools: set[str] = field(default_factory=set)
    skipped: list[dict[str, str]] = field(default_factory=list)
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict)
    notes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def leave_out(self, where: str, reason: str) -> None:
        reason, where = one_line(reason), one_line(where)
        kind = MESSAGE.sub("a message", reason)
        detail = DETAIL.search(kind)
        example = f"{where}: {detail[1] or detail[2]}" if detail else where
        count, first = self.reasons.get(DETAIL.sub("", kind), (0, example))
        self.reasons[DETAIL.sub("", kind)] = (count + 1, first)
        self.skipped.append({"where": where, "reason": reason})

    def keep(self, row: RolloutRow, task_id: str, calls: Sequence[CallOutcome], unnamed: bool) -> None:
        self.kept += 1
        self.calls += len(calls)
        self.tools.update(call.name for call in calls)
        self.tasks.add(task_id)
        self.unnamed.update([task_id] if unnamed else [])
        self.agents.update([row.agent] if row.agent else [])
        for call in (call for call in calls if not call.ok):
            kind = REFUSED if call.observation else UNANSWERED
            self.note(kind, row.where, f"{call.name} {call.observation}")

    def note(self, kind: str, where: str, example: str = "") -> None:
        count, first = self.notes.get(kind, (0, ""))
        self.notes[kind] = (count + 1, first or one_line(f"{where}: {example}" if example else where, 160))

    def some(self, found: Iterator[Trajectory], where: str, remarks: dict[str, int]) -> Iterator[Trajectory]:
        """Yield ``found``. If it holds no rollout, raise a CoevolveError that lists the skipped ones by reason."""
        yield from found
        if not self.kept:
            raise CoevolveError(f"{where}: no rollout to read: {'; '.join(self.lines(remarks)) or 'it is empty'}")

    def mixture(self) -> str:
        """A note about rollouts of several agents or models."""
        most = [f"{one_line(name, 60)} ({count})" for name, count in self.agents.most_common(3)]
        return f"{len(self.agents)} agents or models are mixed; name the files of one: {', '.join(most)}"

    def lines(self, remarks: dict[str, int]) -> list[str]:
        """Notes for the user: what is left out, how many calls were refused, and peculiarities of the rollouts."""
        lines = [
            f"{count} left out: {reason} (first: {first})"
            for reason, (count, first) in sorted(self.reasons.items())[:MOST]
        ]
        lines += [f"{text}: {count}" for text, count in remarks.items()]
        refusals, first = self.notes.get(REFUSED, (0, ""))
        if len(self.agents) > 1:
            lines.append(self.mixture())
        if self.kept:
            lines.append(f"{self.calls} calls, {refusals} of them refused{f' (first: {first})' if refusals else ''}")
        others = {text: note for text, note in self.notes.items() if text != REFUSED}
        return [*lines, *(f"{text}: {count} (first: {first})" for text, (count, first) in others.items())]


def trajectories(
    rows: Rows,
    task_of: Callable[[RolloutRow], str],
    account: RolloutAccount,
    tools: Tools = (),
    score: float | None = None,
    unscored: bool = False,
) -> Iterator[Trajectory]:
    """A trajectory for each rollout whose task is known. Its id is its address in the trainer's files.

    ``task_of`` raises a CoevolveError for a rollout without a known task. ``tools`` are the environment's schemas.
    ``score`` is that of rollouts without one. Without it they are left out, or fail as UNSCORED if ``unscored``.
    """
    for row in rows:
        if isinstance(row, SkippedRow):
            account.leave_out(row.where, row.reason)
            continue
        try:
            value = score if row.score is None else row.score
            if value is None and not unscored and not row.failure:
                raise Unreadable(NO_SCORE)
            messages, calls, unread = chat(row.messages, row.prompt_messages, row.tools or tools)
            task_id = writable(task_of(row))
        except CoevolveError as error:
            account.leave_out(row.where, str(error))
            continue
        if row.calls is not None:
            calls, unread = row.calls, []
        unnamed = task_of is named_or_opening and not (row.task_id or row.names)
        failure = row.failure or (UNSCORED if value is None else "")
        for kind, example in unread:
            account.note(kind, row.where, example)
        account.keep(row, task_id, calls, unnamed)
        value = value or 0.0
        facts = {
            FAILED: row.failure,
            UNSTEPPED: row.step is None,
            UNNAMED: unnamed,
            PARTIAL: not failure and SUCCESS_THRESHOLD <= value < 1,
            OUTSIDE: not 0 <= value <= 1,
        }
        for kind in (kind for kind, holds in facts.items() if holds):
            account.note(kind, row.where)
        yield Trajectory(
            trajectory_id=writable(row.trajectory_id or row.where),
            task_id=task_id,
            iteration=row.iteration,
            step=row.step or 0,
            group=0,
            sample=account.kept - 1,
            messages=messages,
            calls=calls,
            score=value,
            stop_reason=StopReason.ENVIRONMENT_FAILED if failure else row.stop_reason,
            failure=writable(failure),
        )


def named_or_opening(row: RolloutRow) -> str:
    """The id of a task that is not known: the file's, the rollout's first name, or a hash of its first messages."""
    return row.task_id or next(iter(row.names), "") or opening(row.messages, row.prompt_messages)

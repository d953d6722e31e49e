"""Rank failures by how close they come to the reference.

The reward alone ranks them wrongly. On a miniworld task with one change, an episode that does nothing scores 0.245, for the
empty answer that the task expects. An episode that calls a look-alike of the right tool scores 0.122, since damage halves the
reward, although all but one word of the call is right.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import Trajectory
from coevolve.environments.chains import replay
from coevolve.environments.environment import Environment, Session

ALIKE = 0.5  # cost of replacing a call by a call of the same tool, or by a call with the same arguments
BEST = 0.5  # highest reward of a failure in environments that grade; some environments give 0 and 1 only

Calls = Sequence[ToolCall | CallOutcome]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed episode and the reference of its task; ``idle``: the reference changes the world and the episode does not."""

    score: float
    calls: Calls
    reference: Sequence[ToolCall]
    idle: bool


def closeness(failure: Failure) -> float:
    """In [0, 1]: half the reward in units of ``BEST``, plus half the likeness of the calls; 0 if idle."""
    if failure.idle:
        return 0.0
    longest = max(len(failure.calls), len(failure.reference), 1)
    reward = min(failure.score / BEST, 1.0)
    return 0.5 * reward + 0.5 * (1.0 - distance(failure.calls, failure.reference) / longest)


def distance(left: Calls, right: Calls) -> float:
    """Edit distance of two sequences of calls (Levenshtein, 1966).

    An inserted or deleted call costs 1. A replaced call costs 1, or ``ALIKE`` if its tool or its arguments stay the same.
    """
    row = [float(index) for index in range(len(right) + 1)]
    for number, call in enumerate(left, 1):
        above, row = row, [float(number)]
        for index, other in enumerate(right):
            same = (call.name == other.name) + (call.arguments == other.arguments)
            cost = (1.0, ALIKE, 0.0)[same]
            row.append(min(above[index] + cost, above[index + 1] + 1.0, row[index] + 1.0))
    return row[-1]


def parting(left: Calls, right: Calls) -> int:
    """The index of the first call in which the sequences differ, or the length of the shorter sequence."""
    same = [(a.name, a.arguments) == (b.name, b.arguments) for a, b in zip(left, right, strict=False)]
    return same.index(False) if False in same else len(same)


def ranked(failures: Mapping[str, Failure]) -> dict[str, float]:
    """The closeness of each failure."""
    return {name: closeness(failure) for name, failure in failures.items()}


def failures(
    environment: Environment,
    tasks: Sequence[Task],
    references: Mapping[str, Trajectory],
    episodes: Iterable[Trajectory],
) -> dict[str, Failure]:
    """The ``episodes`` that failed at a task with a reference, by trajectory id; ``references`` are episodes by task.

    Episodes in which the agent wrote nothing do not count.
    """
    by_id = {task.task_id: task for task in tasks}
    with closing(environment.open()) as session:
        needs_change = {name: acts(session, by_id[name], episode.calls) for name, episode in references.items()}
        failed = {}
        for episode in episodes:
            if episode.task_id not in references or is_success(episode.score):
                continue
            # an empty reply has 0 tokens, and so has every reply of a policy without tokens
            replies = (message["content"] for message in episode.messages if message["role"] == "assistant")
            if episode.counts and (any(episode.tokens) or any(replies)):
                task = by_id[episode.task_id]
                idle = needs_change[episode.task_id] and not acts(session, task, episode.calls)
                failed[episode.trajectory_id] = Failure(episode.score, episode.calls, task.calls, idle)
        return failed


def acts(session: Session, task: Task, calls: Sequence[CallOutcome]) -> bool:
    """Whether the environment accepts a call that changes the world; a call that ends the episode does not count."""
    turns: list[list[ToolCall]] = [[] for _ in range(max((call.turn for call in calls), default=-1) + 1)]
    for call in calls:
        turns[call.turn].append(ToolCall(call.name, call.arguments))
    played = replay(session, task, turns)
    before = len(played.chain) - played.ended
    pairs = zip(played.chain[:before], played.changed[:before], strict=True)
    return any(change and call.ok for call, change in pairs)

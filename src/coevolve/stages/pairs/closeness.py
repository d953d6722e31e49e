"""How close a failure comes to the reference: what failures are ranked by.

The reward alone ranks them wrongly. In miniworld an episode that does nothing and ends keeps the reward of a right answer for
what nobody asked for, 0.245 of a task with one change; one that takes the look-alike of the right tool is halved for the damage,
0.122, though all but one word of it is right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coevolve.chains import replay
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment, Session

ALIKE = 0.5  # what it costs to turn a call into one of the same tool, or with the same arguments
BEST = 0.5  # no failure's reward is higher in environments that grade, and some grade by 0 and 1 alone

Calls = Sequence[ToolCall | CallOutcome]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed episode beside the reference of its task; ``idle``: the reference changes the world, and the episode did not."""

    score: float
    calls: Calls
    reference: Sequence[ToolCall]
    idle: bool


def closeness(one: Failure) -> float:
    """In [0, 1]: half the reward, in units of the best that a failure gets, and half the likeness of the calls; 0 if idle."""
    if one.idle:
        return 0.0
    longest = max(len(one.calls), len(one.reference), 1)
    return 0.5 * min(one.score / BEST, 1.0) + 0.5 * (1.0 - distance(one.calls, one.reference) / longest)


def reward(one: Failure) -> float:
    """In [0, 1]: the reward alone, in units of the best that a failure gets; the ablation of ``closeness``."""
    return min(one.score / BEST, 1.0)


RANKS: dict[str, Callable[[Failure], float]] = {"closeness": closeness, "reward": reward}


def distance(made: Calls, wanted: Calls) -> float:
    """Edit distance of two sequences of calls (Levenshtein, 1966): a call more or less costs 1, another call in its place 1, or
    ``ALIKE`` if its tool or its arguments are the same.
    """
    row = [float(place) for place in range(len(wanted) + 1)]
    for number, call in enumerate(made, 1):
        above, row = row, [float(number)]
        for place, other in enumerate(wanted):
            row.append(min(above[place] + _cost(call, other), above[place + 1] + 1.0, row[place] + 1.0))
    return row[-1]


def parting(one: Calls, other: Calls) -> int:
    """The place of the first call that is another in ``one`` than in ``other``, or that one of them has alone."""
    same = [(a.name, a.arguments) == (b.name, b.arguments) for a, b in zip(one, other, strict=False)]
    return same.index(False) if False in same else len(same)


def _cost(one: ToolCall | CallOutcome, other: ToolCall | CallOutcome) -> float:
    same = (one.name == other.name) + (one.arguments == other.arguments)
    return (1.0, ALIKE, 0.0)[same]


def ranked(failures: Mapping[str, Failure], rank: str) -> dict[str, float]:
    """Of each, by its name, the rank that `pairs.rank` names."""
    return {name: RANKS[rank](one) for name, one in failures.items()}


def failures(
    environment: Environment,
    tasks: Sequence[Task],
    references: Mapping[str, Trajectory],
    episodes: Iterable[Trajectory],
) -> dict[str, Failure]:
    """By id of the trajectory, the ``episodes`` that failed at one of ``tasks`` with a reference, and in which the agent has said
    something. ``references`` are episodes by task.
    """
    by_id = {task.task_id: task for task in tasks}
    session = environment.open()
    try:
        asked = {name: acts(session, by_id[name], one.calls) for name, one in references.items()}
        found = {}
        for one in episodes:
            if one.counts and one.tokens and not is_success(one.score) and one.task_id in references:
                task = by_id[one.task_id]
                idle = asked[one.task_id] and not acts(session, task, one.calls)
                found[one.trajectory_id] = Failure(one.score, one.calls, task.calls, idle)
        return found
    finally:
        session.close()


def acts(session: Session, task: Task, calls: Sequence[CallOutcome]) -> bool:
    """Whether one of the calls changes the world and is accepted. A call that ends the episode does nothing else."""
    turns: list[list[ToolCall]] = [[] for _ in range(max((call.turn for call in calls), default=-1) + 1)]
    for call in calls:
        turns[call.turn].append(ToolCall(call.name, call.arguments))
    made, changed, ended = replay(session, task, turns)
    before = len(made) - ended
    return any(change and call.ok for call, change in zip(made[:before], changed[:before], strict=True))

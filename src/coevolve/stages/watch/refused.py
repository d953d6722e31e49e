"""Kinds of tasks that never succeed because the environment cannot read the agent's answers.

A curriculum that prefers tasks of medium success stops playing such a kind, although the agent may know the answers
(marin#8765). The cause is the answer format of the agent, of its chat template or of the environment's parser.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from coevolve.core.calls import readable
from coevolve.core.records import Attempt
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.core.untrusted import one_line

FEW = 8  # fewest episodes of a kind
MOST = 0.8  # share of a kind's episodes that must end unread
# causes other than an answer's format
ENDED = frozenset({StopReason.REFUSED, StopReason.BROKEN, StopReason.TIMEOUT, StopReason.MAX_TOKENS})


def unread(episode: Trajectory, task: Task) -> bool:
    """Whether the environment accepted no call of ``episode``, or the last reply is unreadable or a refused call.

    An agent that writes calls in another format makes none at all: the environment reads each call as a message.
    """
    if episode.stop_reason in ENDED or not task.calls:
        return False
    if episode.stop_reason is StopReason.INVALID or not any(call.ok for call in episode.calls):
        return True
    answers = [message["content"] for message in episode.messages if message["role"] == "tool"]
    last = episode.calls[-1]
    # an answer that is not the call's observation is the error of an unreadable reply
    return not last.ok or answers[-1:] != [last.observation]


def refused(
    episodes: Iterable[Trajectory], tasks: Mapping[str, Task], kinds: Mapping[str, str], attempts: Sequence[Attempt]
) -> dict[str, float | None]:
    """For each kind of tasks, the share of episodes that end unread if the kind is lost, or else None.

    ``kinds`` holds the kind of each task, by id. ``attempts`` are all attempts until now. Kinds with fewer than ``FEW`` episodes
    are left out.
    """
    endings: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        if episode.counts and episode.task_id in tasks:
            endings[kinds[episode.task_id]].append(unread(episode, tasks[episode.task_id]))
    solved = {kinds[visit.task_id] for visit in attempts if visit.successes and visit.task_id in kinds}
    shares = {kind: fmean(ends) for kind, ends in sorted(endings.items()) if len(ends) >= FEW}
    return {kind: share if kind not in solved and share >= MOST else None for kind, share in shares.items()}


def share(kinds: Mapping[str, float | None]) -> float | None:
    """The share of refused kinds."""
    return sum(unread is not None for unread in kinds.values()) / len(kinds) if kinds else None


def notes(
    found: Mapping[str, float | None],
    episodes: Sequence[Trajectory],
    tasks: Mapping[str, Task],
    kinds: Mapping[str, str],
) -> list[str]:
    """A note for each refused kind of ``found``, with the first such answer beside the reference's call."""
    ends = [one for one in episodes if one.counts and one.task_id in kinds and unread(one, tasks[one.task_id])]
    first = {kinds[episode.task_id]: episode for episode in reversed(ends)}
    return [
        f"no task of the kind “{kind}” is ever solved, and {share:.0%} of its episodes end with an answer that the "
        f"environment refuses or cannot read. {_example(first[kind], tasks[first[kind].task_id])}. Another form is a "
        "fault of the chat template or the parser; wrong values or names are what the agent must still learn"
        for kind, share in found.items()
        if share is not None
    ]


def _example(episode: Trajectory, task: Task) -> str:
    """The first refused call of ``episode``, or else its last reply, and the call of the reference in its place."""
    call = next((call for call in episode.calls if not call.ok), None)
    last = next((one["content"] for one in reversed(episode.messages) if one["role"] == "assistant"), "")
    said = f"{readable(call.name, call.arguments)} got “{call.observation}”" if call else repr(last)
    right = next((one for one in task.calls if call and one.name == call.name), task.calls[0])
    return f"Such as: {one_line(said, 200)}; the reference has {one_line(readable(right.name, right.arguments), 200)}"

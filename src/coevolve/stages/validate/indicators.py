"""Indicators of an iteration that show when co-evolution goes wrong, before the next iteration trains on its tasks.

Section ``validate`` of params.yaml holds their limits and says what each one means. Past a limit the report warns; past a
critical limit ``main`` in stage.py stops the pipeline.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from coevolve.core import stage_summary
from coevolve.core.records import Attempt, Verdict
from coevolve.core.statistics import evenness
from coevolve.core.task import Task, readable
from coevolve.core.trajectories import StopReason, Trajectory, replies_of, unread_note
from coevolve.core.untrusted import one_line
from coevolve.stages.validate.config import LOW_IS_BAD, MEANING

CHANCE = 0.05  # probability of a false alarm per task in ``regressions``
FEW = 8  # fewest tasks, or episodes of a kind of tasks, for a meaningful share
FEW_TOOLS = 4  # fewest tools for a meaningful entropy: with two tools, an agent may solve its tasks with only one
VISITS = 2  # visits without an episode that counts, after which a note names the task
NAMED = 5  # most tasks that a note names
REPEATS = ("duplicate", "near_duplicate")  # the gates that refuse known tasks
MOST = 0.8  # share of a kind's episodes that must end unread
# causes other than an answer's format
ENDED = frozenset({StopReason.REFUSED, StopReason.BROKEN, StopReason.TIMEOUT, StopReason.MAX_TOKENS})
STEP_KEYS = ("groups", "groups_without_variance")  # required keys of a step's metrics


@dataclass(frozen=True, slots=True)
class Indicator:
    """A measured number with its limits. ``state`` is ``ok``, ``limit`` or ``critical``, by the limits that it passes."""

    name: str
    value: float
    limit: float
    critical: float | None
    state: str

    def __str__(self) -> str:
        side = "below" if self.name in LOW_IS_BAD else "above"
        bound = self.critical if self.state == "critical" else self.limit
        return f"{self.name} {self.value:.2f} is {side} {bound:g}: {MEANING[self.name]}"


def measure(
    t: int,
    trajectories: Sequence[Trajectory],
    tools: int,
    steps: Sequence[Mapping[str, float]],
    visits: Sequence[Attempt],
    tasks: Sequence[Task],
    accepted: Sequence[Task],
    verdicts: Sequence[Verdict],
    figures: Mapping[str, float | None],
) -> dict[str, float | None]:
    """The indicators of iteration ``t`` by name, without ``refused``; None if there is nothing to measure.

    ``trajectories`` are its training episodes, in order. ``tools`` is the number of tools of the environment. ``steps`` are
    the lines of train_metrics.jsonl, ``visits`` all attempts until now, and ``figures`` those of stages pairs and generate.
    """
    last = steps[-1] if steps else {}
    flat, groups = (sum(step[key] for step in steps) for key in ("groups_without_variance", "groups"))
    unread, replies = sum(len(one.unread) for one in trajectories), replies_of(trajectories)
    used: Counter[str] = Counter()
    later = repeated = 0
    counted = (episode for episode in trajectories if episode.counts)
    for _, episodes in groupby(counted, key=lambda episode: (episode.step, episode.group)):
        group = [episode.calls for episode in episodes]
        used.update(call.name for calls in group for call in calls if call.ok)
        later += len(group) - 1
        repeated += len(group) - len({json.dumps([(call.name, call.arguments) for call in calls]) for calls in group})
    repeats = sum(any(gate.name in REPEATS and gate.passed is False for gate in verdict.gates) for verdict in verdicts)
    attempts, following = [visit for visit in visits if visit.size], [*tasks, *accepted]
    return {
        "action_entropy": evenness(used, tools) if tools >= FEW_TOOLS else None,
        "duplicate_trajectories": _share(repeated, later),
        "duplicate_tasks": _share(repeats, len(verdicts)),
        "drift": drift(*(Counter(call.name for task in some for call in task.calls) for some in (tasks, following))),
        "zero_variance": _share(flat, groups),
        "regressions": regressions(attempts, t),
        "stagnant": stagnant(attempts, t, {task.task_id for task in tasks if task.provenance is not None}),
        "environment_failed": _share(sum(not episode.counts for episode in trajectories), len(trajectories)),
        "unreadable": _share(unread, replies),
        "margin": last.get("margin"),
        "chosen": last.get("chosen"),
        "failure_success": figures.get(stage_summary.FAILURE_SUCCESS),
        "failure_idle": figures.get(stage_summary.FAILURE_IDLE),
        "failure_distinct": figures.get(stage_summary.FAILURE_DISTINCT),
        "generator_valid": figures.get(stage_summary.SPEC_VALID),
        "generator_entropy": figures.get(stage_summary.SPEC_ENTROPY),
        "generator_sample": figures.get(stage_summary.SPEC_SAMPLE),
    }


def drift(before: Mapping[str, int], after: Mapping[str, int]) -> float | None:
    """Jensen-Shannon divergence of two distributions, given as counts, in bits: 0 if equal, 1 if disjoint (Lin 1991)."""
    if not sum(before.values()) or not sum(after.values()):
        return None
    divergence = 0.0
    for name in sorted({*before, *after}):
        p, q = (counts.get(name, 0) / sum(counts.values()) for counts in (before, after))
        divergence += sum(share * math.log2(2 * share / (p + q)) / 2 for share in (p, q) if share)
    return max(divergence, 0.0)


def regressions(attempts: Sequence[Attempt], t: int) -> float | None:
    """The share of once-solved tasks that are solved less often on their visit in iteration ``t``.

    A task counts if a one-sided Fisher's exact test against its earlier visits gives a p-value below ``CHANCE``.
    """
    from scipy.stats import hypergeom

    solved = worse = 0
    for *earlier, last in _visits(attempts, t):
        if before := sum(visit.successes for visit in earlier):
            size = last.size + sum(visit.size for visit in earlier)
            solved += 1
            worse += hypergeom.cdf(last.successes, size, before + last.successes, last.size) < CHANCE
    return _share(int(worse), solved)


def stagnant(attempts: Sequence[Attempt], t: int, synthesized: Collection[str]) -> float | None:
    """The share of tasks in ``synthesized`` that are solved no more often on the last visit than on the first.

    It counts tasks that were visited in iteration ``t`` and at least twice before, and that some but not all episodes of
    the first visit solved. None for fewer than ``FEW`` tasks, where chance dominates.
    """
    eligible = improved = 0
    for visits in _visits([attempt for attempt in attempts if attempt.task_id in synthesized], t):
        first, last = visits[0], visits[-1]
        if len(visits) > 2 and 0 < first.successes < first.size:
            eligible += 1
            improved += last.successes * first.size > first.successes * last.size
    return 1.0 - improved / eligible if eligible >= FEW else None


def notes(trajectories: Sequence[Trajectory], visits: Sequence[Attempt], tasks: Sequence[Task]) -> list[str]:
    """Notes on many unreadable replies, and on ``tasks`` that no episode counts for."""
    unread = [reply for episode in trajectories for reply in episode.unread]
    counts = Counter(visit.task_id for visit in visits)
    counted = {visit.task_id for visit in visits if visit.size}
    names = [task.task_id for task in tasks if counts[task.task_id] >= VISITS and task.task_id not in counted]
    found = unread_note(len(unread), replies_of(trajectories), "".join(unread[:1])[:200])
    if names:
        shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
        found.append(
            f"the environment failed in every episode of {len(names)} tasks, in {VISITS} visits or more: {shown}"
        )
    return found


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
    episodes: Iterable[Trajectory], tasks: Sequence[Task], kind: Callable[[Task], str], attempts: Sequence[Attempt]
) -> tuple[float | None, list[str]]:
    """The share of lost kinds among the kinds of ``tasks`` with ``FEW`` episodes or more, and a note on each lost kind.

    A kind is lost if no attempt ever solved it and at least ``MOST`` of its episodes end unread: a curriculum that prefers
    tasks of medium success stops playing it, although the agent may know the answers (marin#8765). The cause is the form of
    calls of the agent, of its chat template or of the environment's parser. A note shows the first such answer beside the
    reference's call. ``attempts`` are all attempts until now.
    """
    by_id = {task.task_id: task for task in tasks}
    kinds = {task.task_id: kind(task) for task in tasks}
    played: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in episodes:
        if episode.counts and episode.task_id in kinds:
            played[kinds[episode.task_id]].append(episode)
    solved = {kinds[visit.task_id] for visit in attempts if visit.successes and visit.task_id in kinds}
    judged = {name: group for name, group in sorted(played.items()) if len(group) >= FEW}
    notes = []
    for name, group in judged.items():
        lost = [episode for episode in group if unread(episode, by_id[episode.task_id])]
        share = len(lost) / len(group)
        if name not in solved and share >= MOST:
            notes.append(
                f"no task of the kind “{name}” is ever solved, and {share:.0%} of its episodes end with an answer that the "
                f"environment refuses or cannot read. {_example(lost[0], by_id[lost[0].task_id])}. Another form is a "
                "fault of the chat template or the parser; wrong values or names are what the agent must still learn"
            )
    return (len(notes) / len(judged) if judged else None), notes


def _example(episode: Trajectory, task: Task) -> str:
    """The first refused call of ``episode``, or else its last reply, and the call of the reference in its place."""
    call = next((call for call in episode.calls if not call.ok), None)
    last = next((one["content"] for one in reversed(episode.messages) if one["role"] == "assistant"), "")
    said = f"{readable(call.name, call.arguments)} got “{call.observation}”" if call else repr(last)
    right = next((one for one in task.calls if call and one.name == call.name), task.calls[0])
    return f"Such as: {one_line(said, 200)}; the reference has {one_line(readable(right.name, right.arguments), 200)}"


def _visits(attempts: Sequence[Attempt], t: int) -> Iterator[list[Attempt]]:
    """For each task visited in iteration ``t``, all its visits in order."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.task_id, attempt.iteration, attempt.step))
    for _, group in groupby(ordered, key=lambda attempt: attempt.task_id):
        visits = list(group)
        if visits[-1].iteration == t:
            yield visits


def _share(count: float, total: float) -> float | None:
    return count / total if total else None

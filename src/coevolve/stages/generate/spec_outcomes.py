"""What became of generations: an accepted task, or why there is none, and how often the agent solves it."""

from collections.abc import Sequence
from dataclasses import replace

from coevolve.core.records import Attempt, Exploration, Gate, Generation, Verdict
from coevolve.core.task import Task
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.verify.judge import Judged

ACCEPTED = "accepted"
UNREALIZED = "unrealized"  # exploring did not get all that it names accepted
WORDLESS = "wordless"  # no task came of the exploration, or more were wanted before it
GATE = "control"  # of candidates that are only measured


def settled(
    generations: Sequence[Generation],
    explorations: Sequence[Exploration],
    judged: Sequence[Judged],
    samples: int,
) -> list[Generation]:
    """``generations`` with their outcomes: each is judged by the first candidate that came of it. ``samples`` episodes made a pass rate."""
    explored = {one.exploration_id for one in explorations}
    first: dict[str, tuple[Verdict, Task]] = {}
    for verdict, task in judged:
        if task is not None and task.provenance is not None:
            first.setdefault(task.provenance.exploration_id, (verdict, task))
    found = []
    for one in generations:
        place = exploration_of(one)
        if one.outcome or one.goals is None:
            found.append(one)
        elif place not in explored:
            found.append(replace(one, outcome=UNREALIZED))
        elif place not in first:
            found.append(replace(one, outcome=WORDLESS))
        else:
            found.append(_judged(one, *first[place], samples))
    return found


def _judged(one: Generation, verdict: Verdict, task: Task, samples: int) -> Generation:
    failed = next((gate.name for gate in verdict.gates if gate.passed is False and gate.name != GATE), None)
    if failed:
        return replace(one, outcome=f"gate: {failed}")
    rate = verdict.pass_rate
    solved, episodes = (round(rate * samples), samples) if rate is not None else (0, 0)
    return replace(one, outcome=ACCEPTED, task_id=task.task_id, successes=solved, episodes=episodes)


def updated(generations: Sequence[Generation], attempts: Sequence[Attempt]) -> list[Generation]:
    """``generations`` with what the agent did at their tasks in training: of each, its latest visit, where there was one, and else
    what was known before.
    """
    last = {one.task_id: one for one in attempts}
    return [
        replace(one, successes=visit.successes, episodes=visit.size)
        if one.task_id and (visit := last.get(one.task_id))
        else one
        for one in generations
    ]


def set_apart(judged: Sequence[Judged], generations: Sequence[Generation]) -> list[Judged]:
    """``judged`` with a last gate, where there are generations of control: what came of these is not trained on."""
    control = {exploration_of(one) for one in generations if one.control}
    if not control:
        return list(judged)
    return [(_gated(verdict, task, control), task) for verdict, task in judged]


def _gated(verdict: Verdict, task: Task | None, control: set[str]) -> Verdict:
    if not verdict.accepted or task is None or task.provenance is None:
        return verdict
    apart = task.provenance.exploration_id in control
    gate = Gate(GATE, not apart, "it measures the generator of before any training" if apart else "")
    return replace(verdict, accepted=not apart, gates=[*verdict.gates, gate])

"""The outcomes of generations: an accepted task and the agent's success at it, or the reason why there is no task."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coevolve.core.records import Attempt, Exploration, Gate, Generation, Verdict
from coevolve.core.task import Task
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.verify.judge import Judged
from coevolve.stages.verify.pass_counts import PassCount

ACCEPTED = "accepted"
UNREALIZED = "unrealized"  # exploration did not get every named tool accepted
WORDLESS = "wordless"  # the exploration led to no task, or enough tasks came before it
GATE = "control"  # the gate of candidates that are only measured


def settled(
    generations: Sequence[Generation],
    explorations: Sequence[Exploration],
    judged: Sequence[Judged],
    counts: Mapping[str, PassCount],
) -> list[Generation]:
    """``generations`` with their outcomes, by the first candidate of each. ``counts`` hold the episodes at each task."""
    explored = {exploration.exploration_id for exploration in explorations}
    first: dict[str, tuple[Verdict, Task]] = {}
    for verdict, task in judged:
        if task is not None and task.provenance is not None:
            first.setdefault(task.provenance.exploration_id, (verdict, task))
    outcomes = []
    for generation in generations:
        exploration_id = exploration_of(generation)
        if generation.outcome or generation.goals is None:
            outcomes.append(generation)
        elif exploration_id not in explored:
            outcomes.append(replace(generation, outcome=UNREALIZED))
        elif exploration_id not in first:
            outcomes.append(replace(generation, outcome=WORDLESS))
        else:
            outcomes.append(_judged(generation, *first[exploration_id], counts))
    return outcomes


def _judged(generation: Generation, verdict: Verdict, task: Task, counts: Mapping[str, PassCount]) -> Generation:
    failed = next((gate.name for gate in verdict.gates if gate.passed is False and gate.name != GATE), None)
    if failed:
        return replace(generation, outcome=f"gate: {failed}")
    count = counts.get(task.task_id)
    solved, episodes = (count.successes, count.episodes) if count is not None else (0, 0)
    return replace(generation, outcome=ACCEPTED, task_id=task.task_id, successes=solved, episodes=episodes)


def updated(generations: Sequence[Generation], attempts: Sequence[Attempt]) -> list[Generation]:
    """``generations`` with the agent's latest visit to their tasks in training, if there was a visit."""
    last = {attempt.task_id: attempt for attempt in attempts}
    return [
        replace(generation, successes=visit.successes, episodes=visit.size)
        if generation.task_id and (visit := last.get(generation.task_id))
        else generation
        for generation in generations
    ]


def set_apart(judged: Sequence[Judged], generations: Sequence[Generation]) -> list[Judged]:
    """``judged`` with a last gate that refuses the candidates of control generations, if there are any."""
    control = {exploration_of(generation) for generation in generations if generation.control}
    if not control:
        return list(judged)
    return [(_gated(verdict, task, control), task) for verdict, task in judged]


def _gated(verdict: Verdict, task: Task | None, control: set[str]) -> Verdict:
    if not verdict.accepted or task is None or task.provenance is None:
        return verdict
    apart = task.provenance.exploration_id in control
    gate = Gate(GATE, not apart, "it only measures the untrained generator" if apart else "")
    return replace(verdict, accepted=not apart, gates=[*verdict.gates, gate])

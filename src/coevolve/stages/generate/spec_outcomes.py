"""The outcomes of generations: an accepted task and the agent's success at it, or the reason why there is no task."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from coevolve.core.records import Attempt, Exploration, Generation
from coevolve.core.stage_summary import StageSummary
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.rewards import distance, rewards
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.verify.judge import Judged

ACCEPTED = "accepted"
UNREALIZED = "unrealized"  # exploration did not get every named tool accepted
WORDLESS = "wordless"  # the exploration led to no task, or enough tasks came before it
OFF = "distance to alpha"
MIDDLE = (0.4, 0.6)  # shares of solved attempts that count as hitting one half


def settled(
    generations: Sequence[Generation], explorations: Sequence[Exploration], judged: Sequence[Judged]
) -> list[Generation]:
    """``generations`` with their outcomes, by the first candidate of each."""
    explored = {exploration.exploration_id for exploration in explorations}
    first: dict[str, Judged] = {}
    for one in judged:
        if one.task is not None and one.task.provenance is not None:
            first.setdefault(one.task.provenance.exploration_id, one)
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
            outcomes.append(_judged(generation, first[exploration_id]))
    return outcomes


def _judged(generation: Generation, one: Judged) -> Generation:
    failed = next((gate.name for gate in one.verdict.gates if gate.passed is False), None)
    if failed:
        return replace(generation, outcome=f"gate: {failed}")
    solved, episodes = (one.count.successes, one.count.episodes) if one.count is not None else (0, 0)
    return replace(generation, outcome=ACCEPTED, task_id=one.verdict.task_id, successes=solved, episodes=episodes)


def updated(generations: Sequence[Generation], attempts: Sequence[Attempt]) -> list[Generation]:
    """``generations`` with the agent's latest visit to their tasks in training, if there was a visit."""
    last = {attempt.task_id: attempt for attempt in attempts}
    return [
        replace(generation, successes=visit.successes, episodes=visit.size)
        if generation.task_id and (visit := last.get(generation.task_id))
        else generation
        for generation in generations
    ]


def with_generator(summary: StageSummary, new: Sequence[Generation], config: Generate) -> StageSummary:
    """The ``summary`` of stage `verify` with the figures of this iteration's generations, if there are any."""
    if not new:
        return summary
    outcomes = Counter(generation.outcome for generation in new)
    played = [generation for generation in new if generation.episodes]
    worth = rewards(new, config)
    shares = [generation.successes / generation.episodes for generation in played]
    figures: dict[str, int | float | None] = {
        "realized specs": outcomes[ACCEPTED] / len(new),
        OFF: fmean(distance(generation, config.alpha) for generation in played) if played else None,
        "generator reward": fmean(worth.values()) if worth else None,
        "share solved about half the time": fmean(MIDDLE[0] <= share <= MIDDLE[1] for share in shares)
        if shares
        else None,
        **{f"specs: {reason}": count for reason, count in sorted(outcomes.items())},
    }
    return replace(summary, figures={**summary.figures, **figures})

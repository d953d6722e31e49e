"""The outcome of a generation, its reward and its weight.

An outcome is an accepted task and the agent's success at it, or the reason why there is no task. The reward is
R = exp(-β (p - α)²), where p is the agent's chance to solve the task (GenEnv, arXiv 2512.19682). The weight in the generator's
next update is w ∝ exp(λ R): reward-weighted regression (Peters and Schaal, Reinforcement learning by reward-weighted regression
for operational space control, 2007).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from coevolve.core.learnability import Record, bell
from coevolve.core.records import Attempt, Exploration, Generation
from coevolve.core.stage_summary import StageSummary
from coevolve.stages.generate.config import Generate
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
    if refusal := one.verdict.refusal:
        return replace(generation, outcome=f"gate: {refusal.name}")
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
        OFF: fmean(abs(Record(one.successes, one.episodes).chance - config.alpha) for one in played)
        if played
        else None,
        "generator reward": fmean(worth.values()) if worth else None,
        "share solved about half the time": fmean(MIDDLE[0] <= share <= MIDDLE[1] for share in shares)
        if shares
        else None,
        **{f"specs: {reason}": count for reason, count in sorted(outcomes.items())},
    }
    return replace(summary, figures={**summary.figures, **figures})


def chances(generations: Sequence[Generation], unit: str) -> dict[str, float]:
    """p = (k + 1)/(n + 2) of each accepted and played generation, by id: the agent solved k of n episodes at its task.

    By ``unit`` "batch", all variations of a seed in an iteration get their mean.
    """
    single = {
        generation.generation_id: Record(generation.successes, generation.episodes).chance
        for generation in generations
        if generation.task_id and generation.episodes
    }
    if unit == "task":
        return single
    batches: dict[tuple[int, str], list[str]] = defaultdict(list)
    for generation in generations:
        if generation.generation_id in single:
            batches[generation.iteration, generation.seed].append(generation.generation_id)
    means = [(names, math.fsum(single[name] for name in names) / len(names)) for names in batches.values()]
    return {name: mean for names, mean in means for name in names}


def rewards(generations: Sequence[Generation], config: Generate) -> dict[str, float]:
    """The reward of each generation that has a chance, by id."""
    return {name: bell(chance, config.alpha, config.beta) for name, chance in chances(generations, config.unit).items()}


def weights(generations: Sequence[Generation], config: Generate, iteration: int) -> dict[str, float]:
    """exp(λ (R - 1)) γ^age, by id, for generations whose chance is at most ``config.band`` from α; the others weigh nothing.

    The age counts iterations since the agent played the generation. Subtracting 1 avoids overflow; weights are relative.
    """
    chance_of, reward_of = chances(generations, config.unit), rewards(generations, config)
    weight_of = {}
    for generation in generations:
        name = generation.generation_id
        if name in chance_of and abs(chance_of[name] - config.alpha) <= config.band:
            age = max(iteration - generation.iteration - 1, 0)
            weight_of[name] = math.exp(config.inverse_temperature * (reward_of[name] - 1.0)) * config.discount**age
    return {name: weight for name, weight in weight_of.items() if weight > 0.0}


def effective(weights: Mapping[str, float]) -> float | None:
    """The effective sample size as a share of the sample: (Σw)² / Σw² / n, 1 for equal weights and None without weights."""
    total, squares = math.fsum(weights.values()), math.fsum(weight * weight for weight in weights.values())
    return total * total / squares / len(weights) if squares else None

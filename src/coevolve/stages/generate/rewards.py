"""The reward of a generation: R = exp(-β (p - α)²), where p is the agent's chance to solve its task (GenEnv, arXiv 2512.19682).

The weight of a generation in the generator's next update is w ∝ exp(λ R). The update is reward-weighted regression (Peters and
Schaal, Reinforcement learning by reward-weighted regression for operational space control, 2007).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from coevolve.core.learnability import Record, bell
from coevolve.core.records import Generation
from coevolve.stages.generate.config import Generate


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


def distance(generation: Generation, alpha: float) -> float:
    """|p - alpha| of an accepted and played generation."""
    return abs(Record(generation.successes, generation.episodes).chance - alpha)


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

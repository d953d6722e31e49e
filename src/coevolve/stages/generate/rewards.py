"""How much a generation is worth: R = exp(-β (p - α)²), p the agent's chance to solve what came of it (GenEnv, arXiv 2512.19682).

And what weight it has in the generator's next update, which is regression on its own generations, weighted by reward (RWR, Peters
and Schaal, Reinforcement learning by reward-weighted regression for operational space control, 2007): w ∝ exp(λ R).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from coevolve.core.learnability import Record, bell
from coevolve.core.records import Generation
from coevolve.stages.generate.config import Generate


def chances(generations: Sequence[Generation], unit: str) -> dict[str, float]:
    """By id, (k + 1)/(n + 2) of what was accepted and played: k of n episodes at its task; by ``unit`` batch, the mean over all
    variations of one seed in one iteration, for each of them.
    """
    own = {
        one.generation_id: Record(one.successes, one.episodes).chance
        for one in generations
        if one.task_id and one.episodes
    }
    if unit == "task":
        return own
    batches: dict[tuple[int, str], list[str]] = defaultdict(list)
    for one in generations:
        if one.generation_id in own:
            batches[one.iteration, one.seed].append(one.generation_id)
    return {name: math.fsum(own[other] for other in names) / len(names) for names in batches.values() for name in names}


def distance(one: Generation, alpha: float) -> float:
    """|p - alpha| of what was accepted and played."""
    return abs(Record(one.successes, one.episodes).chance - alpha)


def rewards(generations: Sequence[Generation], config: Generate) -> dict[str, float]:
    """By id, R of the chance, for all that have one."""
    return {name: bell(chance, config.alpha, config.beta) for name, chance in chances(generations, config.unit).items()}


def weights(generations: Sequence[Generation], config: Generate, iteration: int) -> dict[str, float]:
    """By id, exp(λ (R - 1)) γ^age for those whose chance is at most ``config.band`` from α; all others weigh nothing.

    An age is counted in iterations since the generation was played. 1 is subtracted so that nothing overflows; weights are relative.
    """
    known, worth = chances(generations, config.unit), rewards(generations, config)
    found = {}
    for one in generations:
        name = one.generation_id
        if name in known and abs(known[name] - config.alpha) <= config.band:
            age = max(iteration - one.iteration - 1, 0)
            found[name] = math.exp(config.inverse_temperature * (worth[name] - 1.0)) * config.discount**age
    return {name: weight for name, weight in found.items() if weight > 0.0}


def effective(weights: Mapping[str, float]) -> float | None:
    """The effective sample size as a share of the sample: (Σw)² / Σw² / n; 1 if all weigh the same, None of none."""
    total, squares = math.fsum(weights.values()), math.fsum(one * one for one in weights.values())
    return total * total / squares / len(weights) if squares else None

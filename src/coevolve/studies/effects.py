"""Main effects: the effect of each change, for studies whose arms combine the same changes in several ways."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.statistics import ERROR, Estimate


@dataclass(frozen=True, slots=True)
class ArmRun:
    """A run: its arm's changes to params.yaml, its seed, and its result."""

    changes: Mapping[str, Any]
    seed: int
    value: float


@dataclass(frozen=True, slots=True)
class Effect:
    """The ``gain`` that ``change`` adds to the value of runs with it.

    ``change`` names keys of params.yaml with their values: several keys if no run separates them.
    """

    change: str
    gain: Estimate


def crossed(arms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The arms that can be analyzed together: another arm among them has each of their changes too."""
    made = {arm: _changes(changes) for arm, changes in arms.items()}
    everywhere = set.intersection(*made.values()) if made else set()
    found = list(arms)
    while True:
        many = {one for arm in found for one in made[arm] if sum(one in made[other] for other in found) > 1}
        kept = [arm for arm in found if made[arm] <= many | everywhere]
        if kept == found:
            return found
        found = kept


def effects(runs: Sequence[ArmRun]) -> list[Effect]:
    """The effects of all changes by least squares; empty with too few runs.

    The model is value = seed + sum of the run's changes: effects add up, and a seed shifts all runs equally. Intervals are Student's t
    of the residuals, so interactions between changes widen them.
    """
    import numpy as np
    from scipy.stats import t

    made = [_changes(run.changes) for run in runs]
    shared = set.intersection(*made) if made else set()
    where: dict[tuple[bool, ...], list[str]] = {}
    for one in sorted({one for changes in made for one in changes - shared}):
        where.setdefault(tuple(one in changes for changes in made), []).append(one)
    seeds = sorted({run.seed for run in runs})
    design = np.array(
        [
            [float(run.seed == seed) for seed in seeds] + [float(had[row]) for had in where]
            for row, run in enumerate(runs)
        ]
    )
    free = len(runs) - len(seeds) - len(where)
    if not where or free < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return []
    values = np.array([run.value for run in runs])
    solved = np.linalg.solve(design.T @ design, design.T @ values)
    residual = values - design @ solved
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * float(residual @ residual) / free)
    quantile = float(t.ppf(1.0 - ERROR / 2.0, free))
    return [
        Effect(", ".join(names), Estimate(float(mean), float(quantile * error), sum(had)))
        for (had, names), mean, error in zip(where.items(), solved[len(seeds) :], errors[len(seeds) :], strict=True)
    ]


def table(found: Sequence[Effect], runs: int, panel: str) -> list[str]:
    """Lines of Markdown; none without effects."""
    if not found:
        return []
    lines = [
        "",
        f"What each change adds on {panel}, in points, over {runs} runs of arms that combine them (least squares):",
        "",
    ]
    lines += ["| change | runs | adds |", "|---|---|---|"]
    for one in found:
        lines.append(f"| {one.change} | {one.gain.count} | {one.gain.points}{'*' if one.gain.sure else ''} |")
    return lines


def _changes(changes: Mapping[str, Any]) -> set[str]:
    """Each change as text: its key and its value."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in changes.items()
    }
    return {f"{key}: {text}" for key, text in texts.items()}

"""Evaluation on frozen panels, with bootstrap confidence intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coevolve.core.params import Evaluate
from coevolve.core.progress import bar
from coevolve.core.records import StopReason
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout, scored

OUTCOMES = "outcomes.jsonl"  # in evaluations/t, and an artifact of the run that a model version comes from


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task of a panel, played once."""

    panel: str
    task_id: str
    category: str
    score: float
    success: bool
    stop_reason: str
    turns: int
    tokens: int
    checks: dict[str, bool]


def evaluate(
    policy: Policy | Replicas,
    environment: Environment,
    panels: Mapping[str, Sequence[Task]],
    limits: Limits,
    config: Evaluate,
    seed: int,
) -> list[Outcome]:
    """Play the first ``config.tasks`` of every panel once; episodes that the environment broke are left out."""
    outcomes: list[Outcome] = []
    for name, tasks in panels.items():
        chosen = tasks[: config.tasks]
        # the same numbers for every policy, so that two evaluations differ by the policies alone
        requests = [RolloutRequest(task, derive_seed(seed, "evaluate", name, task.task_id)) for task in chosen]
        by_id = {task.task_id: task for task in chosen}
        with bar(len(chosen), f"evaluate {name}", "tasks") as progress:
            episodes = rollout(policy, environment, requests, limits, progress=progress.update)
        for episode in scored(episodes):
            one = episode.trajectory
            outcomes.append(
                Outcome(
                    panel=name,
                    task_id=one.task_id,
                    category=category(environment, by_id[one.task_id]),
                    score=one.score,
                    success=is_success(one.score),
                    stop_reason=str(one.stop_reason),
                    turns=len(one.tokens),
                    tokens=sum(one.tokens),
                    checks=one.checks,
                )
            )
    return outcomes


def category(environment: Environment, task: Task) -> str:
    """The line of a table of results that the task belongs to: what the environment says, or else its first tag."""
    named: Callable[[Task], str] | None = getattr(environment, "category", None)
    return named(task) if named else (task.tags or ["other"])[0]


def metrics(outcomes: Sequence[Outcome], config: Evaluate, seed: int) -> dict[str, dict[str, Any]]:
    """Per panel: success rate with its confidence interval, mean score, turns, and how episodes ended."""
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(one.panel for one in outcomes):
        ours = [one for one in outcomes if one.panel == name]
        low, high = interval([one.success for one in ours], config, derive_seed(seed, "bootstrap", name))
        ends = {str(reason): sum(one.stop_reason == reason for one in ours) for reason in StopReason}
        found[name] = {
            "tasks": len(ours),
            "success": float(np.mean([one.success for one in ours])),
            "low": low,
            "high": high,
            "score": float(np.mean([one.score for one in ours])),
            "turns": float(np.mean([one.turns for one in ours])),
            "tokens": float(np.mean([one.tokens for one in ours])),
            "stop_reasons": {name: count for name, count in ends.items() if count},
        }
    return found


def interval(values: Sequence[float], config: Evaluate, seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979), by ``config.bootstrap`` resamples of tasks."""
    data = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(0, len(data), (config.bootstrap, len(data)))].mean(axis=1)
    outside = (1.0 - config.confidence) / 2.0
    low, high = np.quantile(means, [outside, 1.0 - outside])
    return float(low), float(high)


def paired_interval(
    base: Mapping[str, float], challenger: Mapping[str, float], config: Evaluate, seed: int
) -> tuple[float, float, float]:
    """Mean gain of ``challenger`` over ``base`` (scores by task) and its interval, over the tasks of both.

    Pairing by task takes the tasks' difficulty out of the comparison.
    """
    shared = [task for task in base if task in challenger]
    gains = [challenger[task] - base[task] for task in shared]
    low, high = interval(gains, config, seed)
    return float(np.mean(gains)), low, high

"""How hard an environment is for a policy: what it solves always, never, and sometimes."""

from collections import defaultdict
from functools import partial
from statistics import fmean

from coevolve.audit.checks import Check
from coevolve.audit.finding import Found, Measured
from coevolve.audit.subject import Subject
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.stages.verify.pass_rates import pass_rates

EASY = 0.95  # success from which on there is little left to learn
CHECK = "statistical.difficulty"


def check(policy: Policy | Replicas, samples: int, limits: Limits, seed: int) -> Check:
    """A check of the table, by ``samples`` episodes of ``policy`` at each task."""
    return Check(
        "warn",
        "Is there something to learn for this policy, and can it be reached?",
        partial(_difficulty, policy=policy, samples=samples, limits=limits, seed=seed),
        "take easier tasks, or a warm start; or harder ones",
    )


def _difficulty(subject: Subject, policy: Policy | Replicas, samples: int, limits: Limits, seed: int) -> Found:
    tasks = list(subject.tasks)
    rates = pass_rates(policy, subject.environment, tasks, limits, samples, seed, lambda count: None)
    kinds: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        if task.task_id in rates:
            kinds[subject.environment.category(task)].append(rates[task.task_id])
    if not rates:
        return Found(None, {"tasks": len(tasks)})
    success = fmean(rates.values())
    measured: Measured = {
        "tasks": len(rates),
        "episodes of each": samples,
        "success": success,
        "never solved": fmean(one == 0.0 for one in rates.values()),
        "always solved": fmean(one == 1.0 for one in rates.values()),
        "categories never solved": sum(not any(many) for many in kinds.values()),
    }
    bad = (
        []
        if 0.0 < success < EASY
        else [f"success is {success:.3f} in {samples} episodes at each of {len(rates)} tasks"]
    )
    return Found(not bad, measured, bad)

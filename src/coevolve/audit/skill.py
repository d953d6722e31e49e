"""Measure how hard an environment is for a policy: the shares of tasks that it always, never and sometimes solves."""

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from coevolve.audit.checks import Check
from coevolve.audit.finding import Found, Measured
from coevolve.audit.subject import Subject
from coevolve.rollout import Limits
from coevolve.stages.verify.pass_counts import rates
from coevolve.stages.verify.pass_rates import pass_counts

EASY = 0.95  # success from which little is left to learn
CHECK = "statistical.difficulty"
LIMITS = Limits(100, 32768, 1024, 600.0)


@dataclass(frozen=True, slots=True)
class Skill:
    """A policy whose success the audit also measures: its model directory, and its episodes per task."""

    folder: str
    samples: int

    def check(self) -> Check:
        """The check for the table of checks."""
        return Check(
            "warn",
            "Does this policy solve some tasks, but not all, so that it can learn?",
            partial(_difficulty, skill=self),
            "at no success choose easier tasks or a warm start, at full success harder tasks",
        )


def _difficulty(subject: Subject, skill: Skill) -> Found:
    from coevolve.policies.loading import open_model

    policy, samples = open_model(Path(skill.folder), 1, "float32", 1.0, {}), skill.samples
    tasks = list(subject.tasks)
    share_of = rates(pass_counts(policy, subject.environment, tasks, LIMITS, samples, 0, lambda count: None))
    kinds: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        if task.task_id in share_of:
            kinds[subject.environment.category(task)].append(share_of[task.task_id])
    if not share_of:
        return Found(None, {"tasks": len(tasks)})
    success = fmean(share_of.values())
    measured: Measured = {
        "tasks": len(share_of),
        "episodes of each": samples,
        "success": success,
        "never solved": fmean(one == 0.0 for one in share_of.values()),
        "always solved": fmean(one == 1.0 for one in share_of.values()),
        "categories never solved": sum(not any(many) for many in kinds.values()),
    }
    bad = (
        []
        if 0.0 < success < EASY
        else [f"success is {success:.3f} in {samples} episodes of each of {len(share_of)} tasks"]
    )
    return Found(not bad, measured, bad)

"""Pass rates: how often the policy solves accepted tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from coevolve.core.records import Verdict
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout, scored


def pass_rates(
    policy: Policy | Replicas,
    environment: Environment,
    tasks: Sequence[Task],
    limits: Limits,
    samples: int,
    seed: int,
    progress: Callable[[int], object],
) -> dict[str, float]:
    """For each task, the share of ``samples`` episodes of ``policy`` that succeed."""
    requests = [
        RolloutRequest(task, derive_seed(seed, "pass rate", task.task_id, sample), sample=sample)
        for task in tasks
        for sample in range(samples)
    ]
    results: dict[str, list[bool]] = {}
    for episode in scored(rollout(policy, environment, requests, limits, progress=progress)):
        results.setdefault(episode.trajectory.task_id, []).append(is_success(episode.trajectory.score))
    return {task_id: sum(successes) / len(successes) for task_id, successes in results.items()}


def with_pass_rate(verdict: Verdict, task: Task | None, rates: Mapping[str, float]) -> tuple[Verdict, Task | None]:
    """Verdict and task with their measured pass rate, if there is one."""
    rate = rates.get(task.task_id) if task is not None and verdict.accepted else None
    if task is None or rate is None:
        return verdict, task
    provenance = replace(task.provenance, pass_rate=rate) if task.provenance else None
    return replace(verdict, pass_rate=rate), replace(task, provenance=provenance)

"""Pass rates: how often the policy solves accepted tasks."""

from collections import Counter
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
from coevolve.stages.verify.pass_counts import PassCount


def pass_counts(
    policy: Policy | Replicas,
    environment: Environment,
    tasks: Sequence[Task],
    limits: Limits,
    samples: int,
    seed: int,
    progress: Callable[[int], object],
) -> dict[str, PassCount]:
    """For each task, the outcomes of ``samples`` episodes of ``policy``."""
    requests = [
        RolloutRequest(task, derive_seed(seed, "pass rate", task.task_id, sample), sample=sample)
        for task in tasks
        for sample in range(samples)
    ]
    episodes = rollout(policy, environment, requests, limits, progress=progress)
    played = Counter(episode.trajectory.task_id for episode in episodes)
    results: dict[str, list[bool]] = {task_id: [] for task_id in played}
    for episode in scored(episodes):
        results[episode.trajectory.task_id].append(is_success(episode.trajectory.score))
    return {
        task_id: PassCount(sum(successes), len(successes), played[task_id]) for task_id, successes in results.items()
    }


def with_pass_rate(verdict: Verdict, task: Task | None, counts: Mapping[str, PassCount]) -> tuple[Verdict, Task | None]:
    """Verdict and task with their measured pass rate, if there is one."""
    count = counts.get(task.task_id) if task is not None and verdict.accepted else None
    rate = count.rate if count is not None else None
    if task is None or rate is None:
        return verdict, task
    provenance = replace(task.provenance, pass_rate=rate) if task.provenance else None
    return replace(verdict, pass_rate=rate), replace(task, provenance=provenance)

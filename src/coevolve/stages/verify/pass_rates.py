"""Pass rates: how often the policy solves accepted tasks."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.verify.judge import Judged, PassCount


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
    played: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in rollout(policy, environment, requests, limits, progress=progress):
        played[episode.trajectory.task_id].append(episode.trajectory)
    return {task_id: _counted(trajectories) for task_id, trajectories in played.items()}


def _counted(trajectories: Sequence[Trajectory]) -> PassCount:
    successes = [is_success(one.score) for one in trajectories if one.counts]
    return PassCount(sum(successes), len(successes), len(trajectories), [one.end for one in trajectories])


def with_pass_rates(judged: Sequence[Judged], counts: Mapping[str, PassCount]) -> list[Judged]:
    """``judged`` with the ``counts`` of accepted tasks. The pass rate, if there is one, joins verdict and provenance."""
    result = []
    for one in judged:
        task, verdict = one.task, one.verdict
        count = counts.get(task.task_id) if task is not None and verdict.accepted else None
        if task is not None and count is not None and count.rate is not None:
            verdict = replace(verdict, pass_rate=count.rate)
            origin = replace(task.provenance, pass_rate=count.rate) if task.provenance else None
            task = replace(task, provenance=origin)
        result.append(replace(one, verdict=verdict, task=task, count=count))
    return result

"""Evaluation: a policy plays every frozen panel."""

from collections.abc import Mapping, Sequence

from coevolve.core.errors import CoevolveError
from coevolve.core.outcomes import Outcome, PanelMetrics
from coevolve.core.params import Evaluate
from coevolve.core.progress import bar
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_summary import StageSummary
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout, scored


def played(config: Evaluate, panels: Sequence[str], environment: str) -> list[str]:
    """The ``panels`` of an ``environment`` that are played, in its order."""
    wanted = panels if config.panels is None else config.panels
    if unknown := [name for name in wanted if name not in panels]:
        raise CoevolveError(
            f"evaluate.panels: {environment} has no {', '.join(unknown)}; expected some of: {', '.join(panels)}"
        )
    return [name for name in panels if name in wanted]


def evaluate(
    policy: Policy | Replicas,
    environment: Environment,
    panels: Mapping[str, Sequence[Task]],
    limits: Limits,
    config: Evaluate,
    seed: int,
) -> list[Outcome]:
    """Play the first ``config.tasks`` of every panel, each ``config.samples`` times in a row; episodes that failed without the agent's doing
    are left out.
    """
    outcomes: list[Outcome] = []
    for name, tasks in panels.items():
        chosen = tasks[: config.tasks]
        # the same numbers for every policy, so that two evaluations differ by the policies alone
        requests = [
            RolloutRequest(
                task, derive_seed(seed, "evaluate", name, task.task_id, *([sample] if sample else [])), sample=sample
            )
            for task in chosen
            for sample in range(config.samples)
        ]
        by_id = {task.task_id: task for task in chosen}
        with bar(len(requests), f"evaluate {name}", "episodes" if config.samples > 1 else "tasks") as progress:
            episodes = rollout(policy, environment, requests, limits, progress=progress.update)
        for episode in scored(episodes):
            one = episode.trajectory
            outcomes.append(
                Outcome(
                    panel=name,
                    task_id=one.task_id,
                    category=environment.category(by_id[one.task_id]),
                    score=one.score,
                    success=is_success(one.score),
                    stop_reason=str(one.stop_reason),
                    turns=len(one.tokens),
                    tokens=sum(one.tokens),
                    checks=one.checks,
                )
            )
    return outcomes


def summary(t: int, panels: Mapping[str, PanelMetrics], wanted: int) -> StageSummary:
    """Of the evaluation of policies/t: what it took. What came of it is in metrics.json, by panel.

    Fewer episodes than ``wanted`` are a note.
    """
    figures = {
        "evaluation episodes": sum(one.episodes for one in panels.values()),
        "evaluation tokens": round(sum(one.tokens * one.episodes for one in panels.values())),
    }
    lost = wanted - figures["evaluation episodes"]
    notes = [f"{lost} of {wanted} evaluation episodes are left out: the environment failed in them"] if lost else []
    return StageSummary("evaluate", t, figures, costs=list(figures), notes=notes)

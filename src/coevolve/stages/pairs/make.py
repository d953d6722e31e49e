"""From a rehearsal to pairs: failures ranked beside references, and what comes of it written."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl, write_text
from coevolve.core.params import Pairs, Train
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.records import Trajectory
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import write_trajectories
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.pairs.check import Checked, check, report
from coevolve.stages.pairs.choose import choose
from coevolve.stages.pairs.closeness import RANKS, Failure, acts
from coevolve.stages.pairs.rehearse import Rehearsal, rehearse


@dataclass(frozen=True, slots=True)
class Made:
    """Pairs as they were ``checked``, and the episodes that they are of; ``closeness`` is the mean rank of all failures, None
    without any.
    """

    checked: Checked = field(default_factory=lambda: Checked([], [], []))
    rehearsals: Sequence[Trajectory] = ()
    references: Sequence[Trajectory] = ()
    closeness: float | None = None


def make(
    policy: Policy | Replicas,
    environment: Environment,
    plan: Rehearsal,
    config: Train,
    own: Pairs,
    limits: Limits,
) -> Made:
    """Play, rank and pair. An environment in which no reference succeeds is a CoevolveError: failures have nothing to be
    held against.
    """
    references = replayed(environment, plan.tasks, limits)
    if not references:
        raise CoevolveError(
            f"train.learner: {config.learner} needs references that solve their tasks when they are replayed, and of the "
            f"{len(plan.tasks)} tasks of iteration {plan.iteration} of {environment.name} none has one; set train.learner: grpo"
        )
    with bar(
        config.steps * config.tasks_per_step * config.group_size, f"pairs {plan.iteration}", "episodes"
    ) as progress:
        played = rehearse(policy, environment, plan, config, limits, progress.update)
    ranks = ranked(environment, plan.tasks, played, references, own.rank)
    pairs = choose(played, references, ranks, own, plan.seed, plan.iteration)
    episodes = {one.trajectory_id: one for one in (*played, *references.values())}
    mean = sum(ranks.values()) / len(ranks) if ranks else None
    return Made(check(pairs, episodes, own.margin), played, list(references.values()), mean)


def replayed(environment: Environment, tasks: Sequence[Task], limits: Limits) -> dict[str, Trajectory]:
    """By task, the episode that its reference makes, where it succeeds."""
    requests = [RolloutRequest(task, 0, sample=-1) for task in tasks if any(task.reference)]
    episodes = rollout(ReferencePolicy(environment), environment, requests, limits)
    return {
        one.trajectory.task_id: one.trajectory
        for one in episodes
        if one.trajectory.counts and is_success(one.trajectory.score)
    }


def ranked(
    environment: Environment,
    tasks: Sequence[Task],
    episodes: Sequence[Trajectory],
    references: Mapping[str, Trajectory],
    rank: str,
) -> dict[str, float]:
    """The rank of each failure at a task that has a reference, by id of its trajectory; the agent has said something in it."""
    by_id = {task.task_id: task for task in tasks}
    session = environment.open()
    try:
        asked = {name: acts(session, by_id[name], one.calls) for name, one in references.items()}
        found = {}
        for one in episodes:
            if one.counts and one.tokens and not is_success(one.score) and one.task_id in references:
                task = by_id[one.task_id]
                idle = asked[one.task_id] and not acts(session, task, one.calls)
                found[one.trajectory_id] = RANKS[rank](Failure(one.score, one.calls, task.calls, idle))
        return found
    finally:
        session.close()


def write(t: int, made: Made | None = None, arithmetic: str = "") -> None:
    """The folder of iteration ``t`` and the stage's summary: of nothing, where the learner needs no pairs."""
    found = made or Made()
    folder = Paths.pairs(t)
    shutil.rmtree(folder, ignore_errors=True)
    write_jsonl(folder / "pairs.jsonl", found.checked.pairs)
    write_jsonl(folder / "quarantine.jsonl", found.checked.quarantine)
    write_text(folder / "report.md", report(found.checked, f"Pairs of iteration {t}"))
    write_trajectories(folder / "rehearsals.parquet", found.rehearsals)
    write_trajectories(folder / "references.parquet", found.references)
    write_summary(summary(t, made, arithmetic))


def summary(t: int, made: Made | None, arithmetic: str) -> StageSummary:
    """Pairs by kind, tasks that have none, and how close failures come."""
    if made is None:
        return StageSummary("pairs", t, {})
    kinds = Counter(one.kind for one in made.checked.pairs)
    tasks = {one.task_id for one in made.rehearsals}
    close = "closeness of failures"
    figures: dict[str, int | float | None] = {
        "pairs": len(made.checked.pairs),
        **{f"pairs: {kind}": count for kind, count in sorted(kinds.items())},
        "pairs in quarantine": len(made.checked.quarantine),
        "tasks without a pair": len(tasks - {one.task_id for one in made.checked.pairs}),
        close: made.closeness,
    }
    return StageSummary(
        "pairs", t, figures, columns=["pairs"], plots={"how close failures come": [close]}, arithmetic=arithmetic
    )

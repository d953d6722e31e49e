"""Turn a rehearsal into pairs: rank the failures, let the failure agent add hard negatives, and sum up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean

from coevolve.core.errors import CoevolveError
from coevolve.core.stage_summary import FAILURE_DISTINCT, FAILURE_IDLE, FAILURE_SUCCESS, StageSummary, timeouts
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.choose import Checked, by_task, check, choose, distinct
from coevolve.stages.pairs.closeness import Failure, closeness, failures, ranked
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.pairs.failure_agent import Evolved, Rival, evolve
from coevolve.stages.pairs.rehearse import PairsContext
from coevolve.stages.train.config import Train
from coevolve.stages.train.reference_tokens import replayed

Figures = dict[str, int | float | None]

CLOSE, IDLE = "closeness of failures", "failures that do nothing"
HARD = "closeness of hard negatives"
# the failure agent's figures, after it has learned
THEIRS = "closeness of the failure agent"
EPISODES, TOKENS = "failure agent episodes", "failure agent tokens"  # played and generated
LEARNED = ("margin", "accuracy", "chosen")  # metrics of its last step


@dataclass(frozen=True, slots=True)
class Made:
    """The ``checked`` pairs and their episodes.

    ``failures`` are those of the rehearsals, by trajectory id. ``hard`` are the hard negatives of the failure agent, if it plays.
    """

    checked: Checked = field(default_factory=lambda: Checked([], [], []))
    rehearsals: Sequence[Trajectory] = ()
    references: Sequence[Trajectory] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict)
    hard: Sequence[Trajectory] = ()
    evolved: Evolved | None = None


def make(policy: Path, context: PairsContext, config: Train, section: Pairs, rival: Rival | None = None) -> Made:
    """Let the model directory ``policy`` and its ``rival``, if there is one, play; rank their failures and choose pairs.

    Raises a CoevolveError if no reference succeeds: failures are ranked against references.
    """
    environment, plan = context.environment, context.plan
    references = replayed(environment, plan.tasks, context.limits)
    if not references:
        raise CoevolveError(
            f"train.learner: {config.learner} needs references that solve their tasks in a replay, but none of the "
            f"{len(plan.tasks)} tasks of iteration {plan.iteration} of {environment.name} has one; set train.learner: grpo"
        )
    played = context.rehearse(policy, config)
    judge = partial(failures, environment, plan.tasks, references)
    failed = judge(played)
    ranks, hard, evolved = ranked(failed), [], None
    if rival:
        evolved = evolve(rival, context, played, failed, judge, section)
        ranks |= ranked(evolved.failures)
        closest = rival.config.closeness
        hard = [episode for episode in evolved.after if ranks.get(episode.trajectory_id, -1.0) >= closest]
    pairs = choose(played, references, ranks, section, plan, hard)
    episodes = {episode.trajectory_id: episode for episode in (*played, *references.values(), *hard)}
    return Made(check(pairs, episodes, section.margin), played, list(references.values()), failed, hard, evolved)


def summary(t: int, result: Made | None, arithmetic: str) -> StageSummary:
    """The summary of iteration ``t``, empty without a ``result``."""
    if result is None:
        return StageSummary("pairs", t, {})
    pairs = result.checked.pairs
    kinds = Counter(pair.kind for pair in pairs)
    tasks = {trajectory.task_id for trajectory in result.rehearsals}
    failures = list(result.failures.values())
    figures: Figures = {
        "pairs": len(pairs),
        **{f"pairs: {kind}": count for kind, count in sorted(kinds.items())},
        "pairs in quarantine": len(result.checked.quarantine),
        "tasks without a pair": len(tasks - {pair.task_id for pair in pairs}),
        CLOSE: _closeness(failures),
        IDLE: _idle(failures),
    }
    costs: list[str] = []
    notes: list[str] = []
    if evolved := result.evolved:
        figures |= _failure_agent(evolved, result.hard)
        notes = [f"the failure agent did not learn: {evolved.reason}"] if evolved.reason else []
        notes += timeouts(episode.stop_reason for episode in (*evolved.before, *evolved.after))
        costs = [EPISODES, TOKENS]
    return StageSummary("pairs", t, figures, ["pairs"], costs, notes, arithmetic)


def _failure_agent(evolved: Evolved, hard: Sequence[Trajectory]) -> Figures:
    """Figures of the failure agent; None if there are no episodes to measure."""
    failed = [episode for episode in evolved.after if episode.trajectory_id in evolved.failures]
    failures = [evolved.failures[episode.trajectory_id] for episode in failed]
    successes = [is_success(episode.score) for episode in evolved.after if episode.counts]
    last = evolved.figures[-1] if evolved.figures else {}
    return {
        "pairs of failures": len(evolved.checked.pairs),
        "hard negatives": len(hard),
        HARD: _closeness([evolved.failures[episode.trajectory_id] for episode in hard]),
        THEIRS: _closeness(failures),
        FAILURE_IDLE: _idle(failures),
        FAILURE_SUCCESS: fmean(successes) if successes else None,
        FAILURE_DISTINCT: sum(map(len, map(distinct, by_task(failed).values()))) / len(failed) if failed else None,
        **{f"failure agent {name}": last.get(name) for name in LEARNED},
        EPISODES: len(evolved.before) + len(evolved.after),
        TOKENS: sum(sum(episode.tokens) for episode in (*evolved.before, *evolved.after)),
    }


def _closeness(failures: Sequence[Failure]) -> float | None:
    return fmean(map(closeness, failures)) if failures else None


def _idle(failures: Sequence[Failure]) -> float | None:
    return fmean(failure.idle for failure in failures) if failures else None

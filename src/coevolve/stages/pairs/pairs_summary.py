"""The summary of stage `pairs`: pairs by kind, the closeness of failures, and the state of the failure agent."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from coevolve.core.stage_summary import FAILURE_DISTINCT, FAILURE_IDLE, FAILURE_SUCCESS, StageSummary, timeouts
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.choose import by_task, distinct
from coevolve.stages.pairs.closeness import Failure, closeness
from coevolve.stages.pairs.failure_agent import Evolved
from coevolve.stages.pairs.make import Made

Figures = dict[str, int | float | None]

CLOSE, IDLE = "closeness of failures", "failures that do nothing"
HARD = "closeness of hard negatives"
# the failure agent's figures, after it has learned
THEIRS = "closeness of the failure agent"
EPISODES, TOKENS = "failure agent episodes", "failure agent tokens"  # played and generated
LEARNED = ("margin", "accuracy", "chosen")  # metrics of its last step


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

"""What stage `pairs` says of an iteration: pairs by kind, how close failures come, and how the failure agent is."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from coevolve.core.stage_summary import FAILURE_DISTINCT, FAILURE_IDLE, FAILURE_SUCCESS, StageSummary
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.choose import by_task, distinct
from coevolve.stages.pairs.closeness import Failure, closeness

if TYPE_CHECKING:
    from coevolve.stages.pairs.failure_agent import Evolved
    from coevolve.stages.pairs.make import Made

Figures = dict[str, int | float | None]

CLOSE, IDLE = "closeness of failures", "failures that do nothing"
HARD = "closeness of hard negatives"
# of the failure agent, after it has learned
THEIRS = "closeness of the failure agent"
EPISODES, TOKENS = "failure agent episodes", "failure agent tokens"  # that it played and generated
LEARNED = ("margin", "accuracy", "chosen")  # of its last step: the log-ratio of what it prefers is the last


def summary(t: int, made: "Made | None", arithmetic: str) -> StageSummary:
    """Of iteration ``t``; of nothing, where no pairs were made."""
    if made is None:
        return StageSummary("pairs", t, {})
    kinds = Counter(one.kind for one in made.checked.pairs)
    tasks = {one.task_id for one in made.rehearsals}
    own = list(made.failures.values())
    figures: Figures = {
        "pairs": len(made.checked.pairs),
        **{f"pairs: {kind}": count for kind, count in sorted(kinds.items())},
        "pairs in quarantine": len(made.checked.quarantine),
        "tasks without a pair": len(tasks - {one.task_id for one in made.checked.pairs}),
        CLOSE: _closeness(own),
        IDLE: _idle(own),
    }
    plots = {"how close failures come": [CLOSE], "failures that do nothing": [IDLE]}
    costs: list[str] = []
    notes: list[str] = []
    if rival := made.evolved:
        figures |= _of(rival, made.hard)
        plots = {"how close failures come": [CLOSE, THEIRS, HARD], "failures that do nothing": [IDLE, FAILURE_IDLE]}
        notes = [f"the failure agent did not learn: {rival.reason}"] if rival.reason else []
        costs = [EPISODES, TOKENS]
    return StageSummary("pairs", t, figures, ["pairs"], costs, plots, notes, arithmetic)


def _of(rival: "Evolved", hard: Sequence[Trajectory]) -> Figures:
    """How the failure agent is; None for what there is nothing to measure on."""
    failed = [one for one in rival.after if one.trajectory_id in rival.failures]
    theirs = [rival.failures[one.trajectory_id] for one in failed]
    counted = [is_success(one.score) for one in rival.after if one.counts]
    last = rival.figures[-1] if rival.figures else {}
    return {
        "pairs of failures": len(rival.checked.pairs),
        "hard negatives": len(hard),
        HARD: _closeness([rival.failures[one.trajectory_id] for one in hard]),
        THEIRS: _closeness(theirs),
        FAILURE_IDLE: _idle(theirs),
        FAILURE_SUCCESS: fmean(counted) if counted else None,
        FAILURE_DISTINCT: sum(map(len, map(distinct, by_task(failed).values()))) / len(failed) if failed else None,
        **{f"failure agent {name}": last.get(name) for name in LEARNED},
        EPISODES: len(rival.before) + len(rival.after),
        TOKENS: sum(sum(one.tokens) for one in (*rival.before, *rival.after)),
    }


def _closeness(failures: Sequence[Failure]) -> float | None:
    """Their mean, whatever failures are ranked by."""
    return fmean(map(closeness, failures)) if failures else None


def _idle(failures: Sequence[Failure]) -> float | None:
    return fmean(one.idle for one in failures) if failures else None

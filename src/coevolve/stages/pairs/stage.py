"""Stage `pairs`: policies/t plays the tasks of iteration t, and the stage pairs its failures with successes.

With `pairs.hard` above 0 the failure agent plays too: it learns from pairs of failures, and its hard negatives join the agent's
failures.

Writes failures/next (the failure agent) and data/t/pairs with pairs.jsonl, quarantine.jsonl, rehearsals.parquet,
references.parquet and hard.parquet. All are empty for a learner that plays by itself. After a kill, a new run continues after
the last complete step.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from coevolve.core.arithmetic import in_effect
from coevolve.core.attempts import read_visits
from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import interrupted
from coevolve.core.io import read_tasks, write_jsonl
from coevolve.core.outcomes import by_task
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.records import Pair
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import (
    FAILURE_DISTINCT,
    FAILURE_IDLE,
    FAILURE_SUCCESS,
    StageSummary,
    write_summary,
)
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory, write_trajectories
from coevolve.environments.fingerprint import open_environment
from coevolve.policies import helper_model
from coevolve.policies.loading import playing, prepare_players
from coevolve.rollout import Limits
from coevolve.stages.pairs.choose import check, choose, distinct
from coevolve.stages.pairs.closeness import Failure, closeness, failures, ranked
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.pairs.failure_agent import Evolved, Rival, begun, evolve
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.schema import Params
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Shared
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
    """The ``pairs``, those in ``quarantine``, and their episodes.

    ``failures`` are those of the rehearsals, by trajectory id. ``hard`` are the hard negatives of the failure agent, if it plays.
    """

    pairs: Sequence[Pair] = ()
    quarantine: Sequence[dict[str, Any]] = ()
    rehearsals: Sequence[Trajectory] = ()
    references: Sequence[Trajectory] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict)
    hard: Sequence[Trajectory] = ()
    evolved: Evolved | None = None


def main(params: Params, t: int) -> None:
    if not params.by_pairs:
        _write(t, Made())
        write_summary(StageSummary("pairs", t, {}))
        print(f"nothing to do: train.learner {params.train.learner} learns from no pairs")
        return
    prepare_players()
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), environment.name, least=1)
    before = read_visits(Paths.attempts(t))
    shared = Shared(params.train, params.policy, params.launch)
    with claim(scratch() / "pairs" / scratch_key("pairs", t, params)) as folder:
        play = partial(playing, config=params.policy, temperature=params.train.temperature)
        rehearsal = Rehearsal(params.seed, t, tasks, before, folder, environment, Limits.of(params.policy), play)
        config = params.pairs.failure_agent
        first, agent, start_folder = Paths.policy(0), Paths.policy(t), folder / "failure agent"
        rival = begun(Paths.failure(t), first, agent, config, shared, start_folder) if params.pairs.hard else None
        result = make(Paths.policy(t), rehearsal, params.train, params.pairs, rival)
        _write(t, result)
        write_summary(summary(t, result, in_effect().name))
        shutil.rmtree(folder)


def make(policy: Path, rehearsal: Rehearsal, config: Train, section: Pairs, rival: Rival | None = None) -> Made:
    """Let the model directory ``policy`` and its ``rival``, if there is one, play; rank their failures and choose pairs.

    Raises a CoevolveError if no reference succeeds: failures are ranked against references.
    """
    environment, tasks = rehearsal.environment, rehearsal.tasks
    references = replayed(environment, tasks, rehearsal.limits)
    if not references:
        raise CoevolveError(
            f"train.learner: {config.learner} needs references that solve their tasks in a replay, but none of the "
            f"{len(tasks)} tasks of iteration {rehearsal.iteration} of {environment.name} has one; set train.learner: grpo"
        )
    played = rehearsal.rehearse(policy, config)
    judge = partial(failures, environment, tasks, references)
    failed = judge(played)
    ranks, hard, evolved = ranked(failed), [], None
    if rival:
        evolved = evolve(rival, rehearsal, played, failed, judge, section)
        ranks |= ranked(evolved.failures)
        closest = rival.config.closeness
        hard = [episode for episode in evolved.after if ranks.get(episode.trajectory_id, -1.0) >= closest]
    pairs = choose(played, references, ranks, section, rehearsal.seed, rehearsal.iteration, hard)
    pairs, quarantine = check(pairs, [*played, *references.values(), *hard], section.margin)
    return Made(pairs, quarantine, played, list(references.values()), failed, hard, evolved)


def _write(t: int, made: Made) -> None:
    """Write the folder of iteration ``t`` and the failure agent after it. A learner without pairs has an empty folder."""
    folder, evolved = Paths.pairs(t), made.evolved
    shutil.rmtree(folder, ignore_errors=True)
    episodes = {"rehearsals": made.rehearsals, "references": made.references, "hard": made.hard}
    write_jsonl(folder / "pairs.jsonl", made.pairs)
    write_jsonl(folder / "quarantine.jsonl", made.quarantine)
    if evolved:
        write_jsonl(folder / "failure/pairs.jsonl", evolved.pairs)
        write_jsonl(folder / "failure/quarantine.jsonl", evolved.quarantine)
        write_jsonl(folder / "failure/metrics.jsonl", evolved.figures)
        episodes |= {"failure/before": evolved.before, "failure/after": evolved.after}
    for name, trajectories in episodes.items():
        write_trajectories(folder / f"{name}.parquet", trajectories)
    helper_model.write(Paths.failure(t + 1), evolved.folder if evolved else Paths.failure(t))


def summary(t: int, result: Made, arithmetic: str) -> StageSummary:
    """The summary of iteration ``t``."""
    pairs = result.pairs
    kinds = Counter(pair.kind for pair in pairs)
    tasks = {trajectory.task_id for trajectory in result.rehearsals}
    failures = list(result.failures.values())
    figures: Figures = {
        "pairs": len(pairs),
        **{f"pairs: {kind}": count for kind, count in sorted(kinds.items())},
        "pairs in quarantine": len(result.quarantine),
        "tasks without a pair": len(tasks - {pair.task_id for pair in pairs}),
        CLOSE: _mean(map(closeness, failures)),
        IDLE: _mean(failure.idle for failure in failures),
    }
    costs: list[str] = []
    notes: list[str] = []
    if evolved := result.evolved:
        figures |= _failure_agent(evolved, result.hard)
        notes = [f"the failure agent did not learn: {evolved.reason}"] if evolved.reason else []
        notes += interrupted(episode.end for episode in (*evolved.before, *evolved.after))
        costs = [EPISODES, TOKENS]
    return StageSummary("pairs", t, figures, ["pairs"], costs, notes, arithmetic)


def _failure_agent(evolved: Evolved, hard: Sequence[Trajectory]) -> Figures:
    """Figures of the failure agent; None if there are no episodes to measure."""
    failed = [episode for episode in evolved.after if episode.trajectory_id in evolved.failures]
    failures = [evolved.failures[episode.trajectory_id] for episode in failed]
    last = evolved.figures[-1] if evolved.figures else {}
    return {
        "pairs of failures": len(evolved.pairs),
        "hard negatives": len(hard),
        HARD: _mean(closeness(evolved.failures[episode.trajectory_id]) for episode in hard),
        THEIRS: _mean(map(closeness, failures)),
        FAILURE_IDLE: _mean(failure.idle for failure in failures),
        FAILURE_SUCCESS: _mean(is_success(episode.score) for episode in evolved.after if episode.counts),
        FAILURE_DISTINCT: sum(map(len, map(distinct, by_task(failed).values()))) / len(failed) if failed else None,
        **{f"failure agent {name}": last.get(name) for name in LEARNED},
        EPISODES: len(evolved.before) + len(evolved.after),
        TOKENS: sum(sum(episode.tokens) for episode in (*evolved.before, *evolved.after)),
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None

"""Stage `pairs`: policies/t plays the tasks of iteration t, and the stage pairs its failures with successes.

With `pairs.hard` above 0 the failure agent plays too: it learns from pairs of failures, and its hard negatives join the agent's
failures.

Writes failures/next (the failure agent) and data/t/pairs with pairs.jsonl, rehearsals.parquet, references.parquet and
hard.parquet. All are empty for a learner that plays by itself. After a kill, a new run continues after the last complete step.
"""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from coevolve.core.arithmetic import in_effect
from coevolve.core.attempts import read_visits
from coevolve.core.io import read_tasks, write_jsonl, write_text
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import FAILURE_IDLE, StageSummary, write_summary
from coevolve.core.trajectories import Trajectory, write_trajectories
from coevolve.environments.fingerprint import open_environment
from coevolve.policies import adapted
from coevolve.policies.loading import playing, prepare_players
from coevolve.rollout import Limits
from coevolve.stages.pairs.choose import Checked, report
from coevolve.stages.pairs.failure_agent import begun
from coevolve.stages.pairs.make import THEIRS, Made, make, summary
from coevolve.stages.pairs.rehearse import PairsContext, Rehearsal
from coevolve.stages.schema import Params
from coevolve.stages.train.learner import Shared
from coevolve.tracking.journal import FAILURE, start


def main(params: Params, t: int) -> None:
    if not params.by_pairs:
        _write(t)
        return
    prepare_players()
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment, least=1)
    before = read_visits(Paths.attempts(t))
    shared = Shared(params.train, params.policy, params.launch)
    with claim(scratch() / "pairs" / scratch_key("pairs", t, params)) as folder:
        plan = Rehearsal(params.seed, t, tasks, before, folder)
        play = partial(playing, config=params.policy, temperature=params.train.temperature)
        context = PairsContext(environment, plan, Limits.of(params.policy), play)
        config = params.pairs.failure_agent
        first, agent, start_folder = Paths.policy(0), Paths.policy(t), folder / "failure agent"
        rival = begun(Paths.failure(t), first, agent, config, shared, start_folder) if params.pairs.hard else None
        result = make(Paths.policy(t), context, params.train, params.pairs, rival)
        _track(params, t, result, _write(t, result, in_effect().name))
        shutil.rmtree(folder)


def _write(t: int, result: Made | None = None, arithmetic: str = "") -> StageSummary:
    """Write the folder of iteration ``t``, the failure agent after it, and the stage's summary, which is returned.

    Without a ``result``, for learners without pairs, the folder has no pairs, the failure agent stays, and the summary is empty.
    """
    pairs = result or Made()
    folder, evolved = Paths.pairs(t), pairs.evolved
    shutil.rmtree(folder, ignore_errors=True)
    episodes = {"rehearsals": pairs.rehearsals, "references": pairs.references, "hard": pairs.hard}
    _write_pairs(folder, pairs.checked, f"Pairs of iteration {t}", episodes)
    if evolved:
        episodes = {"before": evolved.before, "after": evolved.after}
        _write_pairs(folder / "failure", evolved.checked, f"Pairs of failures of iteration {t}", episodes)
        write_jsonl(folder / "failure/metrics.jsonl", evolved.figures)
    adapted.write(Paths.failure(t + 1), evolved.folder if evolved else Paths.failure(t))
    stage_summary = summary(t, result, arithmetic)
    write_summary(stage_summary)
    return stage_summary


def _write_pairs(folder: Path, checked: Checked, title: str, episodes: Mapping[str, Sequence[Trajectory]]) -> None:
    write_jsonl(folder / "pairs.jsonl", checked.pairs)
    write_jsonl(folder / "quarantine.jsonl", checked.quarantine)
    write_text(folder / "report.md", report(checked, title))
    for name, trajectories in episodes.items():
        write_trajectories(folder / f"{name}.parquet", trajectories)


def _track(params: Params, t: int, result: Made, summary: StageSummary) -> None:
    """Log the pairs as a run, and the failure agent as a version of its registered model if it has learned."""
    section = params.pairs.model_dump()
    section |= {f"failure_agent.{name}": value for name, value in section.pop("failure_agent").items()}
    figures = {name: value for name, value in summary.figures.items() if value is not None}
    with start(params.tracking, f"pairs/{t}", {}) as run:
        run.params({"seed": params.seed, "iteration": t, "environment": params.environment, **section})
        run.dataset(Paths.tasks(t), "rehearsal")
        run.dataset(Paths.pairs(t) / "pairs.jsonl", "pairs")
        run.metrics(figures, t)
        if steps := result.evolved.figures if result.evolved else ():
            for row in steps:
                run.metrics({f"failure agent/{name}": value for name, value in row.items()}, int(row["step"]))
            of_agent = {name: figures[name] for name in (THEIRS, FAILURE_IDLE) if name in figures}
            run.model(t + 1, Paths.failure(t + 1), of_agent, FAILURE)

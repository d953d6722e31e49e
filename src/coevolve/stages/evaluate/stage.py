"""Stage `evaluate`: play policies/t on the frozen panels.

Writes evaluations/t/outcomes.jsonl, metrics.json and a summary.

It logs a run to MLflow, with the panels and some episodes, and registers the policy as a version of `coevolve-policy`.
scratch/evaluate holds finished batches of episodes: after a kill the stage plays the rest.
"""

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial

from coevolve.core.arithmetic import in_effect
from coevolve.core.interruptions import interrupted, serious
from coevolve.core.io import read_tasks, write_json, write_jsonl
from coevolve.core.outcomes import OUTCOMES, metrics, unread
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import write_summary
from coevolve.core.success import is_success
from coevolve.core.trajectories import End, Trajectory
from coevolve.core.workers import engine
from coevolve.environments.fingerprint import fingerprint_of, open_environment
from coevolve.policies.loading import playing, prepare_players
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import episodes_in, evaluate, played, summary
from coevolve.stages.schema import Params
from coevolve.tracking.journal import Run, start

TRACED = 10  # tasks of the first panel whose episodes become traces: the same for all policies, to compare them


def main(params: Params, t: int) -> None:
    prepare_players(params.compute.engine)
    config, folder = params.evaluate, Paths.evaluation(t)
    environment = open_environment(params.environment)
    names = played(config, environment.panels, params.environment)
    panels = {name: read_tasks(Paths.panel(name), environment.name) for name in names}
    traced = [task.task_id for name in names[:1] for task in panels[name][: min(TRACED, config.tasks)]]
    limits = Limits.of(params.policy)
    with (
        claim(scratch() / "evaluate" / scratch_key("evaluate", t, params)) as finished,
        start(params.tracking, f"evaluate/{t}") as run,
    ):
        fresh = not finished.exists()
        run.params({"seed": params.seed, "policy": Paths.policy(t), "environment": params.environment, **dict(config)})
        for name in panels:
            run.dataset(Paths.panel(name), "evaluation")
        with (
            engine(params.compute, partial(fingerprint_of, params.environment)) as workers,
            playing(Paths.policy(t), params.policy, config.temperature, workers) as policy,
        ):
            began = time.monotonic()
            ends: list[End] = []
            outcomes = evaluate(policy, environment, panels, limits, config, params.seed, finished, ends, traced)
            seconds = time.monotonic() - began
        solved = sum(outcome.success for outcome in outcomes)
        notes = [*interrupted(ends), *unread(outcomes)]
        results = metrics(outcomes, config, params.seed)
        write_jsonl(folder / OUTCOMES, outcomes)
        write_json(folder / "metrics.json", {panel: asdict(result) for panel, result in results.items()})
        write_summary(replace(summary(t, results, notes), arithmetic=in_effect().name))
        figures = {
            f"{panel}/{key}": getattr(result, key)
            for panel, result in results.items()
            for key in ("success", "score", "turns")
        }
        costs = {f"{panel}/tokens_per_success": result.tokens_per_success for panel, result in results.items()}
        extra = {name: cost for name, cost in costs.items() if cost is not None}
        extra |= {
            f"{panel}/{name.replace('@', '_at_').replace('^', '_every_')}": value  # MLflow takes neither sign
            for panel, result in results.items()
            for name, value in result.several.items()
        }
        if fresh and solved:
            extra["seconds_per_success"] = seconds / solved  # only in MLflow: the files of equal runs must be equal
        run.metrics({**figures, **extra}, t)
        run.artifact(folder / OUTCOMES)
        run.model(t, Paths.policy(t), {panel: result.success for panel, result in results.items()})
        _show(run, t, names, episodes_in(finished))
        shutil.rmtree(finished, ignore_errors=True)
    shown = ", ".join(f"{panel} {result.success:.2f}" for panel, result in results.items())
    result = f"{Paths.policy(t)} solves: {shown}"
    print("\n".join([*notes, result] if serious(ends) else [result, *notes]))


def _show(run: Run, t: int, panels: Sequence[str], episodes: Iterable[Trajectory]) -> None:
    """Log the ``episodes`` on the first panel as traces, and the tasks of all panels with the failures among the traces."""
    failed: dict[str, str] = {}
    for episode in episodes:
        run.trace(asdict(replace(episode, iteration=t)), panel=panels[0])
        if not is_success(episode.score):
            failed.setdefault(episode.task_id, episode.trajectory_id)
    for name in panels:
        run.records(Paths.panel(name), failed)

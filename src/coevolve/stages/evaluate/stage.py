"""Stage `evaluate`: play policies/t on the frozen panels.

Writes evaluations/t/outcomes.jsonl, metrics.json and a summary.

scratch/evaluate holds finished batches of episodes: after a kill the stage plays the rest. scratch/episodes keeps some episodes
of each policy, which trackers show.
"""

import shutil
from dataclasses import asdict, replace
from functools import partial

from coevolve.core.arithmetic import in_effect
from coevolve.core.hashing import policy_hash
from coevolve.core.interruptions import interrupted, serious
from coevolve.core.io import read_tasks, write_json, write_jsonl
from coevolve.core.outcomes import OUTCOMES, metrics, unread
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import write_summary
from coevolve.core.trajectories import End, write_trajectories
from coevolve.core.workers import engine
from coevolve.environments.fingerprint import fingerprint_of, open_environment
from coevolve.policies.loading import playing, prepare_players
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import episodes_in, evaluate, played, summary
from coevolve.stages.schema import Params

TRACED = 10  # tasks of the first panel whose episodes become traces: the same for all policies, to compare them


def main(params: Params, t: int) -> None:
    prepare_players(params.compute.engine)
    config, folder = params.evaluate, Paths.evaluation(t)
    environment = open_environment(params.environment)
    names = played(config, environment.panels, params.environment)
    panels = {name: read_tasks(Paths.panel(name), environment.name) for name in names}
    traced = [task.task_id for name in names[:1] for task in panels[name][: min(TRACED, config.tasks)]]
    limits = Limits.of(params.policy)
    with claim(scratch() / "evaluate" / scratch_key("evaluate", t, params)) as finished:
        with (
            engine(params.compute, partial(fingerprint_of, params.environment)) as workers,
            playing(Paths.policy(t), params.policy, config.temperature, workers) as policy,
        ):
            ends: list[End] = []
            outcomes = evaluate(policy, environment, panels, limits, config, params.seed, finished, ends, traced)
        notes = [*interrupted(ends), *unread(outcomes)]
        results = metrics(outcomes, config, params.seed)
        write_jsonl(folder / OUTCOMES, outcomes)
        write_json(folder / "metrics.json", {panel: asdict(result) for panel, result in results.items()})
        write_summary(replace(summary(t, results, notes), arithmetic=in_effect().name))
        kept = scratch() / "episodes" / f"{policy_hash(Paths.policy(t))}.parquet"
        write_trajectories(kept, episodes_in(finished))
        shutil.rmtree(finished, ignore_errors=True)
    shown = ", ".join(f"{panel} {result.success:.2f}" for panel, result in results.items())
    result = f"{Paths.policy(t)} solves: {shown}"
    print("\n".join([*notes, result] if serious(ends) else [result, *notes]))

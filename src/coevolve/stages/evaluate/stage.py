"""Stage `evaluate`: play policies/t on the frozen panels.

Writes evaluations/t/outcomes.jsonl, metrics.json and a summary. At t = 0 it also plays the tasks of `train.replay.split` and
writes data/0/replay.parquet, the successful episodes, which training clones; without `train.replay.share` the file is empty.

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
from coevolve.stages.train.cloned_episodes import successes, tasks_of

TRACED = 10  # tasks of the first panel whose episodes become traces: the same for all policies, to compare them


def main(params: Params, t: int) -> None:
    prepare_players(params.compute.engine)
    config, folder = params.evaluate, Paths.evaluation(t)
    environment = open_environment(params.environment)
    names = played(config, environment.panels, params.environment)
    panels = {name: read_tasks(Paths.panel(name), environment.name) for name in names}
    traced = [task.task_id for name in names[:1] for task in panels[name][: min(TRACED, config.tasks)]]
    limits = Limits.of(params.policy)
    cloned = [] if t else _replay(params)
    with claim(scratch() / "evaluate" / scratch_key("evaluate", t, params)) as finished:
        with (
            engine(params.compute, partial(fingerprint_of, params.environment)) as workers,
            playing(Paths.policy(t), params.policy, config.temperature, workers) as policy,
        ):
            ends: list[End] = []
            outcomes = evaluate(policy, environment, panels, limits, config, params.seed, finished, ends, traced)
        notes = [*interrupted(ends), *unread(outcomes), *cloned]
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


def _replay(params: Params) -> list[str]:
    """Write the episodes of policies/0 that training clones, and say how many there are."""
    replay, episodes, notes = params.train.replay, [], []
    if replay.share and params.train.learner != "grpo":
        notes = [f"train.replay does nothing: learner {params.train.learner} clones no episodes"]
    elif replay.share:
        environment = open_environment(params.environment)
        tasks = tasks_of(environment, replay.split)
        with playing(Paths.policy(0), params.policy, params.train.temperature) as policy:
            episodes = successes(policy, environment, tasks, Limits.of(params.policy), params.seed)
        notes = [f"training clones {len(episodes)} successes of policies/0 at {len(tasks)} tasks of {replay.split}"]
    write_trajectories(Paths.replay, episodes)
    return notes

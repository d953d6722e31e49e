"""Stage `replay`: policies/0 plays the split that training must not make it lose, once for all iterations.

Writes data/replay/episodes.parquet, its successful episodes, for `grpo` to clone (train/cloned_episodes.py), and a summary. The file holds no
episode unless `train.replay.share` is above 0. scratch/replay holds finished batches: after a kill the stage plays the rest.
"""

import shutil

from coevolve.core.arithmetic import in_effect
from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import interrupted
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import End, write_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.schema import Params

TASKS = 256  # of the split, each played once


def main(params: Params) -> None:
    if not params.train.replay.share or params.train.learner != "grpo":
        why = (
            "train.replay.share is 0" if not params.train.replay.share else f"{params.train.learner} clones no episodes"
        )
        write_trajectories(Paths.replay, [])
        write_summary(StageSummary("replay", 0, {}))
        print(f"nothing to do: {why}")
        return
    from coevolve.policies.loading import playing
    from coevolve.rollout import Limits
    from coevolve.stages.evaluate.config import Evaluate
    from coevolve.stages.evaluate.evaluation import episodes_in, evaluate

    environment, split = open_environment(params.environment), params.train.replay.split
    tasks, sampled = tasks_of(environment, split), Evaluate(tasks=TASKS, temperature=params.train.temperature)
    ends: list[End] = []
    with claim(scratch() / "replay" / scratch_key("replay", None, params)) as finished:
        with playing(Paths.policy(0), params.policy, sampled.temperature) as policy:
            limits, traced = Limits.of(params.policy), {task.task_id for task in tasks}
            evaluate(policy, environment, {split: tasks}, limits, sampled, params.seed, finished, ends, traced)
        played = episodes_in(finished)
        right = [episode for episode in played if is_success(episode.score)]
        if not right:
            raise CoevolveError(
                f"train.replay: policies/0 solved none of {len(played)} tasks of {split}, so that nothing can be cloned; set "
                "train.replay.share to 0, or name another split"
            )
        write_trajectories(Paths.replay, right)
        tokens = sum(sum(episode.tokens) for episode in played)
        costs = {"replay episodes": len(played), "replay tokens": tokens}
        notes = [f"train.replay: cloned are {len(right)} successes of policies/0 in {split}", *interrupted(ends)]
        write_summary(StageSummary("replay", 0, costs, costs=list(costs), notes=notes, arithmetic=in_effect().name))
        shutil.rmtree(finished, ignore_errors=True)
    print("\n".join([f"policies/0 solves {len(right)} of {len(played)} tasks of {split}", *notes[1:]]))


def tasks_of(environment: Environment, split: str) -> list[Task]:
    """The tasks to play: the first of ``split``, without those of a panel."""
    environment.check_named("train.replay.split", split)
    held = {task.task_id for panel in environment.panels for task in environment.tasks(panel)}
    return [task for task in environment.tasks(split) if task.task_id not in held][:TASKS]

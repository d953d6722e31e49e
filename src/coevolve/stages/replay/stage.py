"""Stage `replay`: policies/0 plays the split that training must not make it lose, once for all iterations.

Writes data/replay/episodes.parquet, its successful episodes, for `grpo` to clone (train/cloned_episodes.py), and a summary. The
file holds no episode if there is nothing to clone. scratch/replay holds finished batches: after a kill the stage plays the rest.
"""

import shutil

from coevolve.core.arithmetic import in_effect
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
BROAD = "broad"  # the split of environments whose training tasks are only a part of what an agent should keep


def main(params: Params) -> None:
    if not params.train.replay.share:
        return _idle("train.replay.share is 0")
    if params.train.learner != "grpo":
        return _idle(f"train.learner {params.train.learner} clones no episodes")
    environment, split = open_environment(params.environment), params.train.replay.split or BROAD
    if params.train.replay.split is None and split not in environment.more_splits:
        return _idle(f"{environment.name} has no split {BROAD}, and train.replay.split names none")
    from coevolve.policies.loading import playing
    from coevolve.rollout import Limits
    from coevolve.stages.evaluate.config import Evaluate
    from coevolve.stages.evaluate.evaluation import episodes_in, evaluate

    tasks, sampled = tasks_of(environment, split), Evaluate(tasks=TASKS, temperature=params.train.temperature)
    ends: list[End] = []
    with claim(scratch() / "replay" / scratch_key("replay", None, params)) as finished:
        with playing(Paths.policy(0), params.policy, sampled.temperature) as policy:
            limits, traced = Limits.of(params.policy), {task.task_id for task in tasks}
            evaluate(policy, environment, {split: tasks}, limits, sampled, params.seed, finished, ends, traced)
        played = episodes_in(finished)
        right = [episode for episode in played if is_success(episode.score)]
        costs = {"replay episodes": len(played), "replay tokens": sum(sum(episode.tokens) for episode in played)}
        notes = interrupted(ends)
        if not right:
            notes.append(
                f"train.replay: policies/0 solves none of {len(played)} tasks of {split}, so nothing is cloned"
            )
        write_trajectories(Paths.replay, right)
        write_summary(StageSummary("replay", 0, costs, costs=list(costs), notes=notes, arithmetic=in_effect().name))
        shutil.rmtree(finished, ignore_errors=True)
    print("\n".join([f"policies/0 solves {len(right)} of {len(played)} tasks of {split}", *notes]))


def _idle(why: str) -> None:
    write_trajectories(Paths.replay, [])
    write_summary(StageSummary("replay", 0, {}))
    print(f"nothing to do: {why}")


def tasks_of(environment: Environment, split: str) -> list[Task]:
    """The tasks to play: the first of ``split``, without those of a panel."""
    environment.check_named("train.replay.split", split)
    held = {task.task_id for panel in environment.panels for task in environment.tasks(panel)}
    return [task for task in environment.tasks(split) if task.task_id not in held][:TASKS]

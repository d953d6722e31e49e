"""A warm start: before the loop begins, a model learns to act by supervised learning on successful episodes.

A pretrained model that makes no call learns nothing from rewards, since all its episodes score the same. The learner is
``train.learner: sft``. It ends as soon as the model solves a share of held-out tasks: a policy that always succeeds leaves
nothing to reinforce.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from coevolve.stages.train.learner import Job, Log, Shared
from coevolve.stages.train.offline import Batch, Row, by_length, in_rounds, trained
from coevolve.stages.train.reference_tokens import Tools, failing, offered, replayed, tokens
from coevolve.stages.train.saving import Keeper, Steps, resumed, save
from coevolve.stages.train.sft import method, supervised
from coevolve.stages.warm.config import Warm

GROWTH = 1.2  # between the steps after which two looks at the held-out tasks follow: the first steps change most
SHARE = 5  # one of so many tasks is held out
MOST = 40  # tasks held out

Demonstrations = Sequence[tuple[Trajectory, Tools]]  # episodes to imitate, each with the tools that its task offers


def divided(environment: Environment, split: str, count: int, hold: bool = True) -> tuple[list[Task], list[Task]]:
    """The first ``count`` tasks of ``split`` that have a reference: those to imitate, and those held out.

    Each kind of task, by the tools of its reference, has its share in both. If there is only one task, both lists hold it.
    ``hold`` False holds out no task.
    """
    tasks = [task for task in environment.tasks(split) if any(environment.reference(task))][:count]
    if not hold:
        return tasks, []
    by_kind = sorted(tasks, key=lambda task: (task.tools, task.task_id))  # ids are hashes: a random order
    held = by_kind[SHARE // 2 :: max(SHARE, len(tasks) // MOST)]
    out = {task.task_id for task in held}
    return [task for task in tasks if task.task_id not in out] or tasks, held or tasks


def success(policy: Policy | Replicas, environment: Environment, tasks: Sequence[Task], limits: Limits) -> float:
    """The share of ``tasks`` that ``policy`` solves, in one episode each."""
    episodes = scored(rollout(policy, environment, [RolloutRequest(task, 0) for task in tasks], limits))
    return sum(is_success(episode.trajectory.score) for episode in episodes) / max(len(tasks), 1)


def demonstrations(config: Warm, environment: Environment, limits: Limits) -> Demonstrations:
    """The successes in the file that `warm.demonstrations` names, or else episodes from the references of the split."""
    tasks, held = divided(environment, config.split, config.tasks, config.until is not None)
    if config.demonstrations is not None:
        file, out = Path(config.demonstrations), {task.task_id for task in held}
        right = [one for one in read_trajectories(file) if is_success(one.score) and one.task_id not in out]
        if not right:
            raise CoevolveError(f"warm.demonstrations: {file} has no episode that succeeded")
        return [(episode, list(environment.tools())) for episode in right]
    if not tasks:
        raise CoevolveError(
            f"warm.steps: no task of {environment.name}'s split {config.split!r} has a reference to imitate; name a file of "
            "episodes in warm.demonstrations, or set warm.steps to 0"
        )
    tools = offered(environment, tasks)
    right = list(replayed(environment, tasks, limits).values())
    if not right:
        raise CoevolveError(
            f"warm.steps: none of the {len(tasks)} references of {environment.name}'s split {config.split!r} succeeds within "
            f"policy.max_turns ({limits.max_turns}); the first: {failing(environment, tasks[0], limits)}; raise policy.max_turns, or "
            "check the references with `coevolve env check`"
        )
    return [(episode, tools[episode.task_id]) for episode in right]


class Watcher(Keeper):
    """Ends the training when ``able`` says so of the model and its tokenizer."""

    def __init__(self, steps: Steps, log: Log | None, able: Callable[[Any, Any], bool]) -> None:
        super().__init__(steps, log)
        self._able = able

    def on_step_end(
        self, args: Any, state: Any, control: Any, model: Any = None, processing_class: Any = None, **kwargs: Any
    ) -> None:
        step = state.global_step
        if step == round(GROWTH ** round(math.log(step, GROWTH))) and self._able(model, processing_class):
            # a run that is killed now continues from an earlier checkpoint, and ends here again
            control.should_training_stop, control.should_save = True, False


def learn(
    config: Warm,
    settings: Shared,
    examples: Demonstrations,
    job: Job,
    log: Log | None = None,
    able: Callable[[Any, Any], bool] | None = None,
) -> int:
    """Train or resume ``job`` from its parent on the episodes in ``examples``, and write its policy. Returns the steps.

    ``able``: see ``Watcher``.
    """
    lora = settings.train.lora if config.adapters else settings.train.lora.model_copy(update={"enabled": False})
    changed = {
        "steps": config.steps,
        "lora": lora,
        "keep_base": 0.0,
        "micro_batch": config.micro_batch,
    }
    shared = Shared(settings.train.model_copy(update=changed), settings.policy, settings.launch)
    checkpoint, steps = resumed(job.scratch)
    rows = _rows(config, settings.policy.episode_tokens, examples, job.seed)
    batch = Batch(config.batch, "warm.batch")
    keeper = Watcher(steps, log, able) if able else Keeper(steps, log)
    trainer, tokenizer = trained(
        method(config.learning_rate), shared, job, batch, "warm start", keeper, checkpoint, rows
    )
    save(trainer, tokenizer, shared, job)
    return int(trainer.state.global_step)


def _rows(config: Warm, room: int, examples: Demonstrations, seed: int) -> Callable[[Renderer], list[Row]]:
    """A function that makes the rows of all steps, sorted by length per step."""

    def rows(renderer: Renderer) -> list[Row]:
        episodes = [tokens(renderer, tools, episode) for episode, tools in examples]
        fitting = [episode for episode in episodes if len(episode) <= room]
        if not fitting:
            shortest = min(map(len, episodes), default=0)
            raise CoevolveError(
                f"warm.steps: none of {len(episodes)} demonstrations fits into policy.episode_tokens ({room}): the shortest "
                f"has {shortest} tokens; raise policy.episode_tokens"
            )
        if longer := len(episodes) - len(fitting):
            print(
                f"{longer} of {len(episodes)} demonstrations have more than {room} tokens (policy.episode_tokens) and are left out"
            )
        drawn = in_rounds(fitting, config.batch * config.steps, "warm start order", "right", seed)
        return [supervised(episode) for episode in by_length(drawn, config.batch, len)]

    return rows

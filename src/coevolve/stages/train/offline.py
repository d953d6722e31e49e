"""Learn from stored episodes: their token ids, the rows of each step, and the training that offline learners share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from datasets import Dataset
from transformers import PrinterCallback

from coevolve.core.launch import is_main, world_size
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Episode
from coevolve.stages.train.config import Train
from coevolve.stages.train.groups import Gathered, teaches
from coevolve.stages.train.learner import Job, Log, NothingToLearn, Shared, anchor
from coevolve.stages.train.progress_bar import ProgressBar
from coevolve.stages.train.reference_tokens import Example, Tokens, offered, tokens
from coevolve.stages.train.saving import Keeper, Steps, finish, resumed
from coevolve.stages.train.shared_prefix import prepare_passes
from coevolve.stages.train.trl_arguments import ROWS, adapters, common, load_parent, weights_dtype

PASSES = 4  # of a step, divided by length to save padding, unless train.micro_batch is set

Row = dict[str, list[int]]
Item = TypeVar("Item")


@dataclass(frozen=True)
class OfflineMethod:
    """How TRL learns from pairs: ``row`` and ``collate`` turn examples into the input of ``trainer``, which takes ``arguments``.

    ``anchored``: whether the loss compares the policy with an anchor. ``rate`` is the learning rate.
    """

    trainer: Callable[..., Any]
    arguments: Callable[..., Any]
    row: Callable[[Example], Row]
    collate: Callable[[list[Row]], dict[str, Any]]
    anchored: bool
    rate: float


@dataclass(frozen=True, slots=True)
class Batch:
    """The number of pairs in a step, and the name of that number in error messages."""

    size: int
    name: str


def fit(method: OfflineMethod, settings: Shared, environment: Environment, job: Job, log: Log | None) -> None:
    """Train or resume ``job`` by ``method``. The pairs of a step hold as many episodes as a step of GRPO."""
    batch = Batch(settings.train.tasks_per_step * settings.train.group_size // 2, f"half of {ROWS}")
    checkpoint, steps = resumed(job.scratch)
    played(job, steps, settings.train)
    name = f"train {job.iteration}"
    rows = paired(method, settings, environment, job, batch)
    trainer, tokenizer = trained(method, settings, job, batch, name, Keeper(steps, log), checkpoint, rows)
    finish(trainer, tokenizer, settings, job, steps)


def paired(
    method: OfflineMethod, settings: Shared, environment: Environment, job: Job, batch: Batch
) -> Callable[[Renderer], list[Row]]:
    """A function that makes the rows of all steps from the job's pairs."""

    def rows(renderer: Renderer) -> list[Row]:
        pairs = list(tokenized(job, environment, renderer, settings.policy.episode_tokens))
        return [method.row(pair) for pair in scheduled(pairs, batch, settings.train, job)]

    return rows


def trained(
    method: OfflineMethod,
    settings: Shared,
    job: Job,
    batch: Batch,
    name: str,
    keeper: Keeper,
    checkpoint: Path | None,
    make_rows: Callable[[Renderer], list[Row]],
) -> tuple[Any, Any]:
    """Take all steps from ``checkpoint`` on, and return the trainer and the tokenizer.

    ``name`` labels the progress bar. ``make_rows`` returns the rows of all steps, in order.
    """
    acting, config = settings.policy, settings.train
    share, rest = divmod(batch.size, PASSES * world_size())
    if not config.micro_batch and not rest:  # passes of equal size, where they divide the rows of a step
        config = config.model_copy(update={"micro_batch": share})
    seed = derive_seed(job.seed, "train", job.iteration) % 2**31
    shared = common(config, acting, settings.launch, job.scratch, seed, method.rate, batch.size, batch.name)
    model, tokenizer = load_parent(job.parent, config, acting, method.anchored)
    anchored = {}
    if method.anchored and not config.lora.enabled:  # with adapters, the model without them is the anchor
        anchored["ref_model"] = load(anchor(settings, job), acting.threads, weights_dtype(config, acting))[0]
    sharing = prepare_passes(model, anchored.get("ref_model"), config, settings.launch)
    trainer = method.trainer(
        model=model,
        args=method.arguments(
            **shared, max_length=None, remove_unused_columns=False, train_sampling_strategy="sequential"
        ),
        processing_class=tokenizer,
        data_collator=method.collate,
        train_dataset=Dataset.from_list(make_rows(Renderer(tokenizer, acting.template))),
        peft_config=adapters(config.lora, model),
        callbacks=[*([ProgressBar(name)] if is_main() else []), keeper],
        **anchored,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.prepared = sharing  # for EpisodeSFT
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return trainer, tokenizer


def tokenized(job: Job, environment: Environment, renderer: Renderer, room: int) -> Iterator[Example]:
    """The job's pairs as ids, without pairs that have an episode of more than ``room`` tokens."""
    trajectories = (*job.rehearsals, *job.references, *job.hard)
    episodes = {trajectory.trajectory_id: trajectory for trajectory in trajectories}
    paired = {pair.task_id for pair in job.pairs}
    tools = offered(environment, [task for task in job.tasks if task.task_id in paired])
    tokens_of: dict[str, Tokens] = {}
    for pair in job.pairs:
        names = pair.chosen, pair.rejected
        for name in names:
            if name not in tokens_of:
                tokens_of[name] = tokens(renderer, tools[pair.task_id], episodes[name])
        example = Example(*(tokens_of[name] for name in names))
        if max(map(len, example)) <= room:
            yield example


def scheduled(pairs: Sequence[Example], batch: Batch, config: Train, job: Job) -> list[Example]:
    """The pairs of all steps, each step's by length: one random order of all pairs after another."""
    size = batch.size
    if len(pairs) < size:
        raise NothingToLearn(
            f"iteration {job.iteration}: a step takes {size} pairs ({batch.name}), but only {len(pairs)} of {len(job.pairs)} pairs "
            "fit into policy.episode_tokens; lower that number, or raise pairs.per_task"
        )
    drawn = in_rounds(pairs, size * config.steps, "pairs order", job.seed, job.iteration)
    return by_length(drawn, size, lambda pair: max(map(len, pair)))


def by_length(drawn: Sequence[Item], size: int, length: Callable[[Item], int]) -> list[Item]:
    """The items of all steps, ``size`` in each, with those of a step in the order of their ``length``, which saves padding."""
    steps = (drawn[start : start + size] for start in range(0, len(drawn), size))
    return [item for step in steps for item in sorted(step, key=length)]


def in_rounds(items: Sequence[Item], count: int, *purpose: str | int) -> list[Item]:
    """``count`` draws from ``items``: one random order of all items after another, seeded by ``purpose``."""
    drawn: list[Item] = []
    while len(drawn) < count:
        order = list(items)
        rng_for(*purpose, len(drawn)).shuffle(order)
        drawn += order
    return drawn[:count]


def played(job: Job, steps: Steps, config: Train) -> None:
    """Record the rehearsal in ``steps``, step by step, as if it had been played in training."""
    if not is_main():
        return
    for step, trajectories in groupby(job.rehearsals, key=lambda trajectory: trajectory.step):
        if step >= steps.done:
            by_group = groupby(trajectories, key=lambda trajectory: trajectory.group)
            groups = [[Episode(trajectory, [], 0.0) for trajectory in group] for _, group in by_group]
            steps.keep(step, Gathered([group for group in groups if teaches(group)], groups), config.tasks_per_step)

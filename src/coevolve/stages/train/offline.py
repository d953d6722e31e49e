"""What learners share that learn from episodes played before: token ids, which of them each step takes, and the training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import PrinterCallback

from coevolve.core.launch import is_main, world_size
from coevolve.core.processes import available
from coevolve.core.seeding import derive_seed, generator
from coevolve.core.workers import Local
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.config import PolicySection
from coevolve.policies.replicas import Replicas
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Episode
from coevolve.stages.train.checkpoints import Keeper, Steps, resumed
from coevolve.stages.train.config import Train
from coevolve.stages.train.groups import Gathered, teaches
from coevolve.stages.train.kl_anchor import anchor
from coevolve.stages.train.learner import Job, Log, NothingToLearn, Shared
from coevolve.stages.train.lora import adapters
from coevolve.stages.train.parallel_offline import Helper, Spread
from coevolve.stages.train.progress_bar import ProgressBar
from coevolve.stages.train.reference_tokens import Example, Tokens, offered, tokens
from coevolve.stages.train.saving import finish
from coevolve.stages.train.trl_arguments import ROWS, alone, common, weights_dtype

PASSES = 4  # into which a step is divided by length, so that less of it is padding; train.micro_batch decides where it is set

Row = dict[str, list[int]]
One = TypeVar("One")


@dataclass(frozen=True)
class OfflineMethod:
    """How TRL learns from pairs: ``row`` and ``collate`` make of an example what ``trainer`` takes, which is told ``arguments``;
    ``held``: it holds the policy against a reference; ``rate``: its learning rate.
    """

    trainer: Callable[..., Any]
    arguments: Callable[..., Any]
    row: Callable[[Example], Row]
    collate: Callable[[list[Row]], dict[str, Any]]
    held: bool
    rate: float


@dataclass(frozen=True, slots=True)
class Batch:
    """How many pairs a step takes, and what errors call their number."""

    size: int
    named: str


def fit(method: OfflineMethod, settings: Shared, environment: Environment, job: Job, log: Log | None) -> None:
    """Train or resume ``job`` by ``method``. A step takes as many pairs as make the episodes of a step of GRPO."""
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
    """What makes the rows of all steps of the job's pairs."""

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
    """A trainer that has taken all steps, from ``checkpoint`` on, and the tokenizer; ``name`` stands at the progress bar.

    ``make_rows`` are those of one step after another.
    """
    acting = settings.policy
    config = _divided(settings.train, batch.size)
    seed = derive_seed(job.seed, "train", job.iteration) % 2**31
    shared = common(config, acting, settings.launch, job.scratch, seed, method.rate, batch.size, batch.named)
    held = method.held and not config.lora.enabled  # with adapters, the model without them is the anchor
    recipe = Recipe(method, config, acting, shared, job.parent, anchor(settings, job) if held else None)
    _, tokenizer = model = recipe.load()
    rows = make_rows(Renderer(tokenizer, acting.template))
    count = min(available(), shared["gradient_accumulation_steps"]) if alone(settings.launch) else 1
    replicas = Replicas(Local(count), make_helper, recipe, rows[:1]) if count > 1 else None
    trainer = recipe.trainer(*model, rows, [*([ProgressBar(name)] if is_main() else []), keeper])
    trainer.replicas = replicas
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        if replicas:
            replicas.close()
    return trainer, tokenizer


@dataclass(frozen=True)
class Recipe:
    """All that a process needs to have the trainer of ``method``: ``fixed`` is the reference's model directory, if it has one."""

    method: OfflineMethod
    config: Train
    acting: PolicySection
    arguments: dict[str, Any]
    parent: Path
    fixed: Path | None

    def load(self) -> tuple[Any, Any]:
        return load(self.parent, self.acting.threads, self._dtype, self.config.lora.quantize)

    def trainer(self, model: Any, tokenizer: Any, rows: list[Row], callbacks: list[Any]) -> Any:
        more = {"ref_model": load(self.fixed, self.acting.threads, self._dtype)[0]} if self.fixed else {}
        found = self.method.trainer(
            model=model,
            args=self.method.arguments(**self.arguments, max_length=None, remove_unused_columns=False),
            processing_class=tokenizer,
            data_collator=self.method.collate,
            train_dataset=Dataset.from_list(rows),
            peft_config=adapters(self.config.lora, model),
            callbacks=callbacks,
            **more,
        )
        found.remove_callback(PrinterCallback)
        return found

    @property
    def _dtype(self) -> str:
        return weights_dtype(self.config, self.acting)


def make_helper(recipe: Recipe, rows: list[Row]) -> Helper:
    """One that helps in a process of its own; ``rows`` are any."""
    return Helper(recipe.trainer(*recipe.load(), rows, []))


def _divided(config: Train, size: int) -> Train:
    """``config`` with passes of one size over the ``size`` rows of a step."""
    share, rest = divmod(size, PASSES * world_size())
    return config if config.micro_batch or rest else config.model_copy(update={"micro_batch": share})


def tokenized(job: Job, environment: Environment, renderer: Renderer, room: int) -> Iterator[Example]:
    """Each of the job's pairs; those of which an episode is longer than ``room`` tokens are left out."""
    episodes = {one.trajectory_id: one for one in (*job.rehearsals, *job.references, *job.hard)}
    paired = {pair.task_id for pair in job.pairs}
    tools = offered(environment, [task for task in job.tasks if task.task_id in paired])
    known: dict[str, Tokens] = {}
    for pair in job.pairs:
        names = pair.chosen, pair.rejected
        for name in names:
            if name not in known:
                known[name] = tokens(renderer, tools[pair.task_id], episodes[name])
        example = Example(*(known[name] for name in names))
        if max(map(len, example)) <= room:
            yield example


def scheduled(pairs: Sequence[Example], batch: Batch, config: Train, job: Job) -> list[Example]:
    """The pairs of each step: one random order of all of them after another, and those of a step by length."""
    size = batch.size
    if len(pairs) < size:
        raise NothingToLearn(
            f"iteration {job.iteration}: a step takes {size} pairs, {batch.named}, and there "
            f"are {len(job.pairs)}, {len(pairs)} of which fit into policy.episode_tokens; lower the former, or raise pairs.per_task"
        )
    found = in_rounds(pairs, size * config.steps, "pairs order", job.seed, job.iteration)
    steps = (found[start : start + size] for start in range(0, size * config.steps, size))
    return [pair for step in steps for pair in sorted(step, key=lambda pair: max(map(len, pair)))]


def in_rounds(some: Sequence[One], count: int, *purpose: str | int) -> list[One]:
    """``count`` of ``some``: one random order of all of them after another, by seeds for this ``purpose``."""
    found: list[One] = []
    while len(found) < count:
        order = list(some)
        generator(*purpose, len(found)).shuffle(order)
        found += order
    return found[:count]


def played(job: Job, steps: Steps, config: Train) -> None:
    """Tell ``steps`` of the rehearsal, step by step, as if it were played in training."""
    if not is_main():
        return
    for step, episodes in groupby(job.rehearsals, key=lambda one: one.step):
        if step >= steps.done:
            groups = [
                [Episode(one, [], 0.0) for one in group] for _, group in groupby(episodes, key=lambda one: one.group)
            ]
            steps.keep(step, Gathered([one for one in groups if teaches(one)], groups), config.tasks_per_step)


class InOrder(Spread):
    """Of a trainer: rows are taken in their order, and passes by several processes."""

    train_dataset: Any

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        return SequentialSampler(self.train_dataset if dataset is None else dataset)

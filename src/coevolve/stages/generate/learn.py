"""Train a generator on its own generations, weighted by reward and close to the initial generator (GenEnv, arXiv 2512.19682).

    L = Σ_i w_i Σ_j -log π(y_ij | c_i, y_i<j) / Σ_i w_i |y_i|  +  η mean_ij KL(π(· | c_i, y_i<j) || π⁰(· | c_i, y_i<j))

y_i are the tokens of a generation, c_i its prompt, w_i its weight and η = ``generate.kl``. The divergence is exact: it sums over
the whole vocabulary at each token of y. After each step, ``SpecKLLimit`` compares the divergence of whole specs, the mean of Σ_j KL_j
in nats, with ``generate.max_kl``. If it is larger, the update ends and the weights before that step are restored. The figures
omit that step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from coevolve.core.seeding import derive_seed
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.transformers_policy import load
from coevolve.stages.generate.config import Generate
from coevolve.stages.train.learner import Job, Shared
from coevolve.stages.train.offline import in_rounds
from coevolve.stages.train.parallel_grpo import copy_weights, in_training
from coevolve.stages.train.progress_bar import ProgressBar
from coevolve.stages.train.reference_tokens import Tokens
from coevolve.stages.train.saving import Keeper, Steps, resumed, save_learned
from coevolve.stages.train.sft import IGNORED, collate, supervised
from coevolve.stages.train.trl_arguments import adapters, common, load_parent

PROBED = 64  # generations that measure the divergence of whole specs

Row = dict[str, list[int] | float]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A generation to learn from: its prompt as chat messages, its text, and its weight."""

    messages: Sequence[dict[str, Any]]
    text: str
    weight: float


def learn(
    lessons: Sequence[Lesson], probes: Sequence[Lesson], section: Generate, settings: Shared, job: Job
) -> list[dict[str, float]]:
    """Train or resume ``job`` from its parent on ``lessons``, write its policy or adapter, and return the figures of the steps kept.

    ``job.base`` is the initial generator. ``probes`` measure the divergence of whole specs.
    """
    config, acting = settings.train, settings.policy
    seed = derive_seed(job.seed, "generator", job.iteration) % 2**31
    rate, rows_name = section.learning_rate, "generate.batch"
    arguments = common(config, acting, settings.launch, job.scratch, seed, rate, section.batch, rows_name)
    checkpoint, steps = resumed(job.scratch)
    model, tokenizer = load_parent(job.parent, config, acting, anchored=True)
    first, _ = load(job.base, acting.threads, acting.dtype)
    renderer = Renderer(tokenizer, acting.template)
    rows = [row(lesson, renderer) for lesson in drawn(lessons, section, job)]
    limit = SpecKLLimit([row(lesson, renderer) for lesson in probes[:PROBED]], first, section.max_kl, steps)
    trainer = WeightedSFT(
        model=model,
        args=SFTConfig(
            **arguments,
            max_length=None,
            remove_unused_columns=False,
            train_sampling_strategy="sequential",
            dataset_kwargs={"skip_prepare_dataset": True},
        ),
        processing_class=tokenizer,
        data_collator=collate_weighted,
        train_dataset=Dataset.from_list(rows),
        peft_config=adapters(config.lora, model),
        callbacks=[ProgressBar(f"generator {job.iteration}"), Keeper(steps, None), limit],
        first=first,
        kl=section.kl,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    limit.restore_last_step(trainer.model)
    save_learned(trainer, tokenizer, settings, job)
    return steps.metrics(limit.kept(trainer.state.global_step))


def drawn(lessons: Sequence[Lesson], config: Generate, job: Job) -> list[Lesson]:
    """The lessons of all steps, drawn evenly: one random order of all lessons after another. The loss applies the weights."""
    return in_rounds(lessons, config.batch * config.steps, "generator order", job.seed, job.iteration)


def row(lesson: Lesson, renderer: Renderer) -> Row:
    prompt, reply = renderer.first(lesson.messages, []), renderer.reply(lesson.text)
    return {**supervised(Tokens(prompt, reply, [1] * len(reply))), "weight": lesson.weight}


def collate_weighted(rows: list[Row]) -> dict[str, torch.Tensor]:
    """The tensors of ``sft.collate``, and a weight for each row."""
    weights = torch.tensor([row["weight"] for row in rows], dtype=torch.float32)
    return {**collate(rows), "weight": weights}


def target_log_probabilities(
    model: Any, inputs: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities (rows × positions × vocabulary), the tokens at these positions, and a mask of the targets.

    The positions are those where some row has a target: the logits of a prompt of thousands of tokens would take gigabytes.
    """
    labels = inputs["labels"][:, 1:]
    positions = (labels != IGNORED).any(0).nonzero()[:, 0]
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=positions).logits
    labels = labels[:, positions]
    targets = labels != IGNORED
    return torch.log_softmax(logits.float(), -1), labels.masked_fill(~targets, 0), targets


def divergence(logps: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """KL(π || π⁰) at each position, from log-probabilities over the vocabulary."""
    return (logps.exp() * (logps - first)).sum(-1)


class WeightedSFT(SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over the rows of ``row``, with the loss above; TRL's loss has no weights (trl#5761)."""

    # weights are normalized within each pass of the model: all passes of a step count equally
    loss_is_scaled_for_ga = False

    def __init__(self, *arguments: Any, first: Any, kl: float, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._first, self._kl = first, kl

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        logps, tokens, targets = target_log_probabilities(model, inputs)
        with torch.no_grad():
            first, _, _ = target_log_probabilities(self._first, inputs)
        weight = inputs["weight"][:, None] * targets
        likelihood = logps.gather(-1, tokens[..., None])[..., 0]
        kl = (divergence(logps, first) * targets).sum() / targets.sum()
        self._metrics["train"]["kl"].append(kl.item())
        return -(likelihood * weight).sum() / weight.sum() + self._kl * kl


class SpecKLLimit(TrainerCallback):  # type: ignore[misc]
    """Records the divergence of whole specs in ``steps``, in nats, and ends training after a step that exceeds ``most``.

    ``restore_last_step`` then restores the weights before that step.
    """

    def __init__(self, rows: list[Row], first: Any, most: float, steps: Steps) -> None:
        self._inputs, self._first, self._most, self._steps = collate_weighted(rows), first, most, steps
        self._before: list[torch.Tensor] = []
        self._restored: list[torch.Tensor] | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._before = [parameter.detach().clone() for parameter in in_training(model)]

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        kl = self._divergence(model)
        self._steps.add(state.global_step - 1, {"spec_kl": kl})
        if kl > self._most:
            self._restored = self._before
            control.should_training_stop = True
            control.should_save = False  # otherwise a run that is killed now would continue from these weights

    def restore_last_step(self, model: Any) -> None:
        """Restore the weights before the step that exceeded the limit, if there was such a step."""
        if self._restored is not None:
            copy_weights(in_training(model), self._restored)

    def kept(self, steps: int) -> int:
        """The number of ``steps`` whose weights stay."""
        return steps if self._restored is None else steps - 1

    def _divergence(self, model: Any) -> float:
        training = model.training
        model.eval()
        with torch.no_grad():
            inputs = {name: values.to(model.device) for name, values in self._inputs.items()}
            logps, _, targets = target_log_probabilities(model, inputs)
            first, _, _ = target_log_probabilities(self._first, inputs)
            kl = float((divergence(logps, first) * targets).sum(1).mean())
        model.train(training)
        return kl

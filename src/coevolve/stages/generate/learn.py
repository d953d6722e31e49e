"""A generator learns from its own generations, weighted by reward, on a leash to what it was at first (GenEnv, arXiv 2512.19682).

    L = Σ_i w_i Σ_j -log π(y_ij | c_i, y_i<j) / Σ_i w_i |y_i|  +  η mean_ij KL(π(· | c_i, y_i<j) || π⁰(· | c_i, y_i<j))

y_i are the tokens of a generation, c_i what it answers, w_i its weight and η = ``generate.kl``. The divergence is exact: over the
whole vocabulary at each token of y. After each step the divergence of whole specs, the mean of Σ_j KL_j in nats, is held against
``generate.max_kl``: once it is above, the weights before that step are kept, and the update is over.
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
from coevolve.stages.train.checkpoints import Keeper, Steps, resumed
from coevolve.stages.train.learner import Job, Shared
from coevolve.stages.train.lora import adapters
from coevolve.stages.train.offline import InOrder, in_rounds
from coevolve.stages.train.parallel_offline import in_training
from coevolve.stages.train.progress_bar import ProgressBar
from coevolve.stages.train.reference_tokens import Tokens
from coevolve.stages.train.saving import save_learned
from coevolve.stages.train.sft_trainer import IGNORED, collate, supervised
from coevolve.stages.train.trl_arguments import common, weights_dtype

PROBED = 64  # generations on which the divergence of whole specs is measured

Row = dict[str, list[int] | float]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A generation to learn from: what it answers, as chat messages, what it says, and its weight."""

    messages: Sequence[dict[str, Any]]
    text: str
    weight: float


def learn(
    lessons: Sequence[Lesson], probed: Sequence[Lesson], own: Generate, settings: Shared, job: Job
) -> list[dict[str, float]]:
    """Train or resume ``job`` from its parent by ``lessons``, and write its policy, or the adapter alone; the figures of each step.

    ``job.base`` is the initial generator. The divergence of whole specs is measured on ``probed``.
    """
    config, acting = settings.train, settings.policy
    arguments = common(
        config, acting, settings.launch, job.scratch, _seed(job), own.learning_rate, own.batch, "generate.batch"
    )
    checkpoint, steps = resumed(job.scratch)
    model, tokenizer = load(job.parent, acting.threads, weights_dtype(config, acting), config.lora.quantize)
    first, _ = load(job.base, acting.threads, acting.dtype)
    renderer = Renderer(tokenizer, acting.template)
    rows = [row(one, renderer) for one in drawn(lessons, own, job)]
    leash = Leash([row(one, renderer) for one in probed[:PROBED]], first, own.max_kl, steps)
    trainer = WeightedSFT(
        model=model,
        args=SFTConfig(
            **arguments, max_length=None, remove_unused_columns=False, dataset_kwargs={"skip_prepare_dataset": True}
        ),
        processing_class=tokenizer,
        data_collator=collate_weighted,
        train_dataset=Dataset.from_list(rows),
        peft_config=adapters(config.lora, model),
        callbacks=[ProgressBar(f"generator {job.iteration}"), Keeper(steps, None), leash],
        first=first,
        kl=own.kl,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    leash.tighten(trainer.model)
    save_learned(trainer, tokenizer, settings, job)
    return steps.metrics(trainer.state.global_step)


def drawn(lessons: Sequence[Lesson], own: Generate, job: Job) -> list[Lesson]:
    """The lessons of each step, drawn evenly: one random order of all after another. The loss weighs them."""
    return in_rounds(lessons, own.batch * own.steps, "generator order", job.seed, job.iteration)


def row(one: Lesson, renderer: Renderer) -> Row:
    prompt, reply = renderer.first(one.messages, []), renderer.reply(one.text)
    return {**supervised(Tokens(prompt, reply, [1] * len(reply))), "weight": one.weight}


def collate_weighted(rows: list[Row]) -> dict[str, torch.Tensor]:
    """What ``supervised.collate`` makes, and a weight for each row."""
    ids = [{name: values for name, values in one.items() if isinstance(values, list)} for one in rows]
    return collate(ids) | {"weight": torch.tensor([one["weight"] for one in rows], dtype=torch.float32)}


def own_logits(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities of what is said at each place, rows × places × vocabulary, the tokens there, and which are targets.

    Places are those at which some row has a target: a prompt of thousands of tokens would take gigabytes of them.
    """
    labels = inputs["labels"][:, 1:]
    places = (labels != IGNORED).any(0).nonzero()[:, 0]
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=places).logits
    labels = labels[:, places]
    targets = labels != IGNORED
    return torch.log_softmax(logits.float(), -1), labels.masked_fill(~targets, 0), targets


def divergence(own: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """KL(π || π⁰) at each place, of log-probabilities over the vocabulary."""
    return (own.exp() * (own - first)).sum(-1)


class WeightedSFT(InOrder, SFTTrainer):  # type: ignore[misc]
    """``SFTTrainer`` over rows such as ``row`` makes, with the loss above; TRL's has no weights (trl#5761)."""

    # weights are normalized within each pass of the model: passes of one step count alike
    loss_is_scaled_for_ga = False

    def __init__(self, *arguments: Any, first: Any, kl: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._first, self._kl = first, kl

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        own, tokens, targets = own_logits(model, inputs)
        with torch.no_grad():
            first, _, _ = own_logits(self._first, inputs)
        weight = inputs["weight"][:, None] * targets
        likelihood = own.gather(-1, tokens[..., None])[..., 0]
        kl = (divergence(own, first) * targets).sum() / targets.sum()
        self._metrics["train"]["kl"].append(kl.item())
        return -(likelihood * weight).sum() / weight.sum() + self._kl * kl


class Leash(TrainerCallback):  # type: ignore[misc]
    """Tells ``steps`` the divergence of whole specs, in nats; ends training after a step that goes further than ``most``, and brings
    back the weights before it.
    """

    def __init__(self, rows: list[Row], first: Any, most: float, steps: Steps) -> None:
        self._inputs, self._first, self._most, self._steps = collate_weighted(rows), first, most, steps
        self._before: list[torch.Tensor] = []
        self._kept: list[torch.Tensor] | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._before = [one.detach().clone() for one in in_training(model)]

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        far = self._far(model)
        self._steps.add(state.global_step - 1, {"spec_kl": far})
        if far > self._most:
            self._kept = self._before
            control.should_training_stop = True
            control.should_save = False  # or a run that is killed now would go on from there

    def tighten(self, model: Any) -> None:
        """Bring back the weights before the step that went too far, if one did."""
        if self._kept is not None:
            with torch.no_grad():
                for parameter, values in zip(in_training(model), self._kept, strict=True):
                    parameter.copy_(values)

    def _far(self, model: Any) -> float:
        training = model.training
        model.eval()
        with torch.no_grad():
            inputs = {name: values.to(model.device) for name, values in self._inputs.items()}
            own, _, targets = own_logits(model, inputs)
            first, _, _ = own_logits(self._first, inputs)
            far = float((divergence(own, first) * targets).sum(1).mean())
        model.train(training)
        return far


def _seed(job: Job) -> int:
    return derive_seed(job.seed, "generator", job.iteration) % 2**31

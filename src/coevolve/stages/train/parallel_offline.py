"""Spread the passes of a step of transformers' ``Trainer`` over several processes, with the same bytes as in one process.

Each process holds its own trainer and computes the loss and the gradients of whole passes. The main process adds the
gradients in the order of the passes, as a single process does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from coevolve.core.seeding import derive_seed
from coevolve.stages.train.pass_sharing import Arrays, PassSharing, copy_weights, in_training

Metrics = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Pass:
    """Collated ``inputs``, the ``seed`` for dropout, and the ``count`` of passes in the step.

    ``items`` divides the loss of the step; None means that the loss is a mean over passes.
    """

    inputs: dict[str, np.ndarray[Any, Any]]
    seed: int
    count: int
    items: int | None


class Helper:
    """A trainer in a helper process: it computes passes and takes no optimizer steps."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def load(self, weights: Arrays) -> None:
        copy_weights(in_training(self._trainer.model), weights)

    def work(self, passes: Sequence[Pass]) -> list[tuple[float, Arrays, Metrics]]:
        """The loss, the gradients and the trainer's metrics of each pass."""
        trainer, results = self._trainer, []
        parameters = in_training(trainer.model)
        for part in passes:
            inputs = {name: torch.from_numpy(values) for name, values in part.inputs.items()}
            items = None if part.items is None else torch.tensor(part.items)
            trainer.current_gradient_accumulation_steps = part.count
            torch.manual_seed(part.seed)
            loss = trainer.alone(trainer.model, inputs, items)
            gradients = [parameter.grad.numpy() for parameter in parameters]
            metrics = {name: list(values) for name, values in trainer._metrics["train"].items()}
            trainer._metrics["train"].clear()
            for parameter in parameters:
                parameter.grad = None
            results.append((float(loss), gradients, metrics))
        return results


class Spread:
    """Mix-in for a ``Trainer``: with ``sharing``, processes that each hold a ``Helper`` compute its passes."""

    sharing: PassSharing | None = None
    model: Any
    state: Any
    args: Any

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> tuple[list[Any], Any]:
        samples, items = super().get_batch_samples(epoch_iterator, num_batches, device)  # type: ignore[misc]
        self._pass = 0
        self._results = self._computed(self.sharing, samples, items) if self.sharing else []
        return samples, items

    def training_step(self, model: Any, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        number, self._pass = self._pass, self._pass + 1
        if not self.sharing:
            torch.manual_seed(self._seed(number))
            return self.alone(model, inputs, num_items_in_batch)
        model.train()  # otherwise the metrics would count as evaluation
        loss, gradients, metrics = self._results[number]
        for parameter, values in zip(in_training(self.model), gradients, strict=True):
            gradient = torch.from_numpy(values)
            if parameter.grad is None:
                parameter.grad = gradient.clone()
            else:
                parameter.grad += gradient
        for name, measured in metrics.items():
            self._metrics["train"][name] += measured  # type: ignore[attr-defined]
        return torch.tensor(loss)

    def alone(self, model: Any, inputs: Mapping[str, Any], items: Any) -> torch.Tensor:
        """Run one pass of ``model`` in this process: add its gradients to those of the parameters, and return its loss."""
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch=items)  # type: ignore[misc]
        return loss

    def _seed(self, number: int) -> int:
        return derive_seed(self.args.seed, "pass", self.state.global_step, number) % 2**63

    def _computed(self, sharing: PassSharing, samples: Sequence[Mapping[str, torch.Tensor]], items: Any) -> list[Any]:
        """The result of ``Helper.work`` for each of the ``samples``."""
        count, total = len(samples), None if items is None else int(items)
        passes = [
            Pass({name: values.numpy() for name, values in sample.items()}, self._seed(number), count, total)
            for number, sample in enumerate(samples)
        ]
        sharing.send_weights(in_training(self.model))
        return sharing.run_parts("work", passes, [sample["input_ids"].numel() for sample in samples])

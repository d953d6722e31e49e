"""The passes of a step over several processes, with the same bytes as in one: for transformers' ``Trainer``, whatever its loss.

Each process holds a trainer of its own and works out loss and gradient of whole passes. Gradients are summed in the order of the
passes, as one process sums them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from coevolve.core.seeding import derive_seed
from coevolve.policies.replicas import Replicas

Arrays = list[np.ndarray[Any, Any]]
Metrics = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Pass:
    """Collated ``inputs``, the seed for dropout, how many passes the step has, and what the step's loss is divided by, if that is
    no mean over passes.
    """

    inputs: dict[str, np.ndarray[Any, Any]]
    seed: int
    count: int
    items: int | None


class Helper:
    """A trainer that takes no steps of its own."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def load(self, weights: Arrays) -> None:
        with torch.no_grad():
            for parameter, values in zip(in_training(self._trainer.model), weights, strict=True):
                parameter.copy_(torch.from_numpy(values))

    def work(self, passes: Sequence[Pass]) -> list[tuple[float, Arrays, Metrics]]:
        """Of each pass: the loss, the gradients of all that is trained, and what the trainer has measured."""
        trainer, found = self._trainer, []
        parameters = in_training(trainer.model)
        for one in passes:
            inputs = {name: torch.from_numpy(values) for name, values in one.inputs.items()}
            items = None if one.items is None else torch.tensor(one.items)
            trainer.current_gradient_accumulation_steps = one.count
            torch.manual_seed(one.seed)
            loss = trainer.alone(trainer.model, inputs, items)
            gradients = [parameter.grad.numpy() for parameter in parameters]
            metrics = {name: list(values) for name, values in trainer._metrics["train"].items()}
            trainer._metrics["train"].clear()
            for parameter in parameters:
                parameter.grad = None
            found.append((float(loss), gradients, metrics))
        return found


class Spread:
    """Of a ``Trainer``: with ``replicas`` of ``Helper``, they work out its passes."""

    replicas: Replicas | None = None
    model: Any
    state: Any
    args: Any

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> tuple[list[Any], Any]:
        samples, items = super().get_batch_samples(epoch_iterator, num_batches, device)  # type: ignore[misc]
        self._place = 0
        self._found = self._worked(samples, items) if self.replicas else []
        return samples, items

    def training_step(self, model: Any, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        place, self._place = self._place, self._place + 1
        if not self.replicas:
            torch.manual_seed(self._seed(place))
            return self.alone(model, inputs, num_items_in_batch)
        model.train()  # or what was measured would count as evaluation
        loss, gradients, metrics = self._found[place]
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
        """A pass of ``model`` in this process: its loss; gradients are added to those of the parameters."""
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch=items)  # type: ignore[misc]
        return loss

    def _seed(self, place: int) -> int:
        return derive_seed(self.args.seed, "pass", self.state.global_step, place) % 2**63

    def _worked(self, samples: Sequence[Mapping[str, torch.Tensor]], items: Any) -> list[tuple[float, Arrays, Metrics]]:
        assert self.replicas
        calls: list[Callable[..., Any]] = [one.call for one in self.replicas.members]
        weights = [one.detach().numpy() for one in in_training(self.model)]
        count, total = len(samples), None if items is None else int(items)
        passes = [
            Pass({name: one.numpy() for name, one in sample.items()}, self._seed(place), count, total)
            for place, sample in enumerate(samples)
        ]
        shares = shared([one["input_ids"].numel() for one in samples], len(calls))

        def work(pair: tuple[Callable[..., Any], list[int]]) -> list[tuple[int, Any]]:
            call, share = pair
            if not share:
                return []
            call("load", weights)
            return list(zip(share, call("work", [passes[place] for place in share]), strict=True))

        with ThreadPoolExecutor(len(calls), thread_name_prefix="spread") as pool:
            found = dict(one for some in pool.map(work, zip(calls, shares, strict=True)) for one in some)
        return [found[place] for place in range(count)]


def shared(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Which of the pieces of these ``sizes`` each of ``count`` processes takes: the largest first, to whichever has least."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += sizes[place]
    return shares


def in_training(model: Any) -> list[torch.nn.Parameter]:
    """The parameters of ``model`` that the optimizer changes."""
    return [one for one in model.parameters() if one.requires_grad]

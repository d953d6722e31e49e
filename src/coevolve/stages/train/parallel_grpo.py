"""Forward and backward passes over the parts of a batch, by one process or several, with the same bytes either way.

A part is rows of similar lengths. Each is a graph of its own, and gradients are summed in the order of the parts, so that no
bit depends on which process had which part.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trl.trainer.utils import add_fused_lm_head

from coevolve.policies.policy import Conversation, Reply
from coevolve.policies.replicas import Replicas
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.stages.train.parallel_offline import shared

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class RowPart:
    """Token ids and their mask (rows × columns), of which the last ``scored`` columns are the completion; ``seed`` for dropout."""

    ids: torch.Tensor
    mask: torch.Tensor
    scored: int
    seed: int


class TrainingReplica:
    """A model in training and its reference (if there is one), with the graphs of the passes under way."""

    def __init__(self, model: Any, reference: Any, policy: TransformersPolicy) -> None:
        self._model, self._reference, self._policy = model, reference, policy
        self._graphs: dict[int, list[torch.Tensor]] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._policy.begin(conversations)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return self._policy.act(conversations)

    def load(self, weights: Arrays) -> None:
        self._graphs = {}
        with torch.no_grad():
            for parameter, values in zip(self._model.parameters(), weights, strict=True):
                parameter.copy_(torch.from_numpy(values))

    def forward(self, parts: Sequence[RowPart], reference: bool, call: int) -> list[tuple[Any, Any]]:
        """Log-probabilities and entropies (rows × scored) of each part; graphs are kept under the number of the ``call``, if it
        is not 0.
        """
        model = self._reference if reference else self._model
        found, graphs = [], []
        with torch.set_grad_enabled(call > 0):
            for part in parts:
                logps, entropies = _forward(model, part)
                graphs.append(logps)
                found.append((logps.detach().numpy(), None if entropies is None else entropies.detach().numpy()))
        if call:
            self._graphs[call] = graphs
        return found

    def backward(self, gradients: Arrays, call: int) -> list[Arrays]:
        """By part, the gradients of the parameters from those of its log-probabilities in the forward ``call``."""
        parameters = [one for one in self._model.parameters() if one.requires_grad]
        graphs = self._graphs.pop(call)
        found = []
        for logps, gradient in zip(graphs, gradients, strict=True):
            values = torch.autograd.grad(logps, parameters, torch.from_numpy(gradient))
            found.append([value.numpy() for value in values])
        return found


def _forward(model: Any, part: RowPart) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As TRL's ``_get_per_token_logps_and_entropies``, by the head that TRL has put on ``model``."""
    labels = part.ids.masked_fill(part.mask == 0, -100)
    labels[:, : -part.scored] = -100
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(part.seed)
        output = model(input_ids=part.ids, attention_mask=part.mask, labels=labels, fused_lm_head=True)
    entropies = getattr(output, "entropy", None)
    return output.log_probs[:, -part.scored :], None if entropies is None else entropies[:, -part.scored :]


def make_learner(
    parent: Path, threads: int, temperature: float, template: dict[str, Any], dtype: str, reference: Path | None
) -> TrainingReplica:
    """A learner in a process of its own, from model directories, as TRL's trainer prepares it."""
    model, tokenizer = load(parent, threads, dtype)
    add_fused_lm_head(model, temperature=temperature, outputs=("log_probs", "entropy"))
    fixed = load(reference, threads, dtype)[0] if reference else None
    if fixed is not None:
        add_fused_lm_head(fixed, temperature=temperature)
    return TrainingReplica(model.train(), fixed, TransformersPolicy(model, tokenizer, temperature, template))


class Team:
    """Learners that share the parts of a batch: ``own`` alone, in this process, or those of ``replicas``."""

    def __init__(self, own: TrainingReplica, replicas: Replicas | None) -> None:
        self._calls: list[Callable[..., Any]]
        if replicas:
            self._calls = [one.call for one in replicas.members]
        else:
            self._calls = [lambda method, *arguments: getattr(own, method)(*arguments)]
        self._pool = ThreadPoolExecutor(len(self._calls), thread_name_prefix="team")
        self._count = 0

    def load(self, parameters: Sequence[torch.Tensor]) -> None:
        """Weights for every process that has not these very ones."""
        if len(self._calls) > 1:
            weights = [one.detach().numpy() for one in parameters]
            self._each([("load", weights)] * len(self._calls))

    def log_probabilities(
        self, parts: Sequence[RowPart], parameters: Sequence[torch.nn.Parameter], reference: bool
    ) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        """Log-probabilities and entropies of each part; those of the model are differentiable, where autograd is on."""
        if reference or not torch.is_grad_enabled():
            return self.forward(parts, reference, 0)
        self._count += 1
        found = _Passes.apply(self, self._count, parts, *parameters)
        return list(zip(found[: len(parts)], found[len(parts) :], strict=True))

    def forward(self, parts: Sequence[RowPart], reference: bool, call: int) -> list[tuple[Any, Any]]:
        shares = shared([one.ids.numel() for one in parts], len(self._calls))
        results = self._each([("forward", [parts[row] for row in share], reference, call) for share in shares])
        found = self._ordered(shares, results)
        return [tuple(None if one is None else torch.from_numpy(one) for one in pair) for pair in found]  # type: ignore[misc]

    def backward(self, parts: Sequence[RowPart], gradients: Sequence[torch.Tensor], call: int) -> list[torch.Tensor]:
        shares = shared([one.ids.numel() for one in parts], len(self._calls))
        results = self._each([("backward", [gradients[row].numpy() for row in share], call) for share in shares])
        found = self._ordered(shares, results)
        total = [torch.from_numpy(one).clone() for one in found[-1]]
        for values in reversed(found[:-1]):  # as autograd sums them: what came last comes first
            for one, value in zip(total, values, strict=True):
                one += torch.from_numpy(value)
        return total

    def _each(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(calls) == 1:
            return [self._calls[0](*calls[0])]
        return list(self._pool.map(lambda pair: pair[0](*pair[1]), zip(self._calls, calls, strict=True)))

    def _ordered(self, shares: Sequence[Sequence[int]], results: Sequence[Sequence[Any]]) -> list[Any]:
        by_part = {
            row: value
            for share, own in zip(shares, results, strict=True)
            for row, value in zip(share, own, strict=True)
        }
        return [by_part[row] for row in sorted(by_part)]


class _Passes(torch.autograd.Function):  # type: ignore[misc]
    """Log-probabilities of all parts, then their entropies, as a function of the parameters."""

    @staticmethod
    def forward(
        ctx: Any, team: Team, call: int, parts: Sequence[RowPart], *parameters: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.team, ctx.call, ctx.parts = team, call, parts
        found = team.forward(parts, False, call)
        entropies = tuple(entropy for _, entropy in found)
        ctx.mark_non_differentiable(*entropies)
        return (*(logps for logps, _ in found), *entropies)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return (None, None, None, *ctx.team.backward(ctx.parts, gradients[: len(ctx.parts)], ctx.call))

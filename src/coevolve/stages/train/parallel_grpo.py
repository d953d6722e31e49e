"""A trick for speed: GRPO's forward and backward passes over the parts of a batch, shared by processes, with the same bytes for
any number of them.

A part holds rows of similar lengths: otherwise half of a batch would be padding. Each part has its own graph, and gradients are
added in the order of the parts. So no bit depends on the process that computed a part.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trl.trainer.utils import add_fused_lm_head

from coevolve.core.launch import wanted
from coevolve.core.workers import local
from coevolve.policies.policy import Replicas
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.stages.train.learner import Job, Shared, anchor, doubts
from coevolve.stages.train.shared_prefix import levels_of, present, share_prefixes, shares
from coevolve.stages.train.trl_arguments import weights_dtype

Arrays = list[np.ndarray[Any, Any]]
Call = Callable[..., Any]  # takes the name of a method and its arguments
Scores = tuple[Any, Any, Any]  # log-probabilities and entropies (rows × scored), and the auxiliary loss of experts


@dataclass(frozen=True, slots=True)
class RowPart:
    """Token ids and their mask (rows × columns). The last ``scored`` columns are the completion; ``seed`` is for dropout."""

    ids: torch.Tensor
    mask: torch.Tensor
    scored: int
    seed: int
    shares: bool


class Parts:
    """A batch of token ``ids`` and their ``mask`` (rows × columns) in ``count`` parts. The last ``scored`` columns are scored.

    ``sharing`` says whether rows may share prefixes; they do where it is worth it.
    """

    def __init__(self, ids: Any, mask: Any, scored: int, count: int, seed: int, sharing: bool) -> None:
        start = ids.shape[1] - scored
        before, after = mask[:, :start].sum(1), mask[:, start:].sum(1)
        prompts = present(ids[:, :start], mask[:, :start]) if sharing else []
        worth = bool(prompts) and len(levels_of(prompts)) > 1
        self._order = _order(before + after, prompts if worth else None)
        self._scored = scored
        self.parts: list[RowPart] = []
        for rows in self._order.chunk(count):
            first, last = start - int(before[rows].max()), int(after[rows].max())
            end = start + last
            self.parts.append(RowPart(ids[rows, first:end], mask[rows, first:end], last, seed, worth))

    def joined(self, scores: Sequence[Scores]) -> Scores:
        """The scores of the batch (rows × ``scored``, zero after the end of a part) from those of its parts."""
        logps, entropies, auxiliary = zip(*scores, strict=True)
        loss = None if auxiliary[0] is None else torch.stack(auxiliary).mean()
        return self._joined(logps), self._joined(entropies), loss

    def _joined(self, values: Sequence[Any]) -> Any:
        if values[0] is None:
            return None
        padded = [torch.nn.functional.pad(part, (0, self._scored - part.shape[1])) for part in values]
        return torch.cat(padded)[torch.argsort(self._order)]


def _order(lengths: torch.Tensor, prompts: Sequence[Sequence[int]] | None) -> torch.Tensor:
    """Rows by length. If they share ``prompts``, attempts at one task stay together, and tasks are in order of length."""
    by_length = torch.argsort(lengths, stable=True)
    if prompts is None:
        return by_length
    tasks: dict[tuple[int, ...], list[int]] = {}
    for row in by_length.tolist():
        tasks.setdefault(tuple(prompts[row]), []).append(row)
    longest = sorted(tasks.values(), key=lambda rows: int(lengths[rows[-1]]))
    return torch.tensor([row for rows in longest for row in rows], device=lengths.device)


class TrainingReplica(TransformersPolicy):
    """A policy in training and its anchor's model, if it has one, with the graphs of the passes under way."""

    def __init__(
        self, model: Any, tokenizer: Any, temperature: float, template: dict[str, Any], anchor: Any = None
    ) -> None:
        super().__init__(model, tokenizer, temperature, template)
        self._anchor = anchor
        self._graphs: dict[int, list[torch.Tensor]] = {}

    def load(self, weights: Arrays) -> None:
        self._graphs = {}
        copy_weights(self.model.parameters(), weights)

    def forward(self, parts: Sequence[RowPart], anchor: bool, call: int) -> list[tuple[Any, Any]]:
        """Log-probabilities and entropies (rows × scored) of each part, by the anchor or by the model.

        Unless ``call`` is 0, the replica keeps the graphs under that number.
        """
        model = self._anchor if anchor else self.model
        results, graphs = [], []
        with torch.set_grad_enabled(call > 0):
            for part in parts:
                logps, entropies = _forward(model, part)
                graphs.append(logps)
                results.append((logps.detach().numpy(), None if entropies is None else entropies.detach().numpy()))
        if call:
            self._graphs[call] = graphs
        return results

    def doubts(self) -> list[str]:
        """Why passes in this process stopped sharing prefixes."""
        return doubts

    def backward(self, gradients: Arrays, call: int) -> list[Arrays]:
        """For each part of the forward ``call``, the gradients of the parameters, from those of its log-probabilities."""
        parameters = in_training(self.model)
        by_part = []
        for logps, gradient in zip(self._graphs.pop(call), gradients, strict=True):
            values = torch.autograd.grad(logps, parameters, torch.from_numpy(gradient))
            by_part.append([value.numpy() for value in values])
        return by_part


def _forward(model: Any, part: RowPart) -> tuple[torch.Tensor, torch.Tensor | None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(part.seed)
        return scored_pass(model, part)


def scored_pass(model: Any, part: RowPart) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities and entropies (rows × scored), as TRL's ``_get_per_token_logps_and_entropies`` has them, by the head
    that TRL has put on ``model``.

    If rows share prefixes, the head sees the scored columns alone. On a CPU, TRL projects the prompt to the vocabulary too.
    """
    scored = part.scored
    labels = part.ids.masked_fill(part.mask == 0, -100)
    labels[:, :-scored] = -100
    keep = {"keep": scored + 1} if part.shares else {}
    labels = labels[:, -scored - 1 :] if part.shares else labels
    output = model(input_ids=part.ids, attention_mask=part.mask, labels=labels, fused_lm_head=True, **keep)
    entropies = getattr(output, "entropy", None)
    return output.log_probs[:, -scored:], None if entropies is None else entropies[:, -scored:]


def make_learner(
    parent: Path,
    threads: int,
    temperature: float,
    template: dict[str, Any],
    dtype: str,
    anchor: Path | None,
    shares: bool,
) -> TrainingReplica:
    """Load a replica from model directories and prepare it as TRL's trainer does. A separate process calls this."""
    model, tokenizer = load(parent, threads, dtype)
    add_fused_lm_head(model, temperature=temperature, outputs=("log_probs", "entropy"))
    anchor_model = load(anchor, threads, dtype)[0] if anchor else None
    if anchor_model is not None:
        add_fused_lm_head(anchor_model, temperature=temperature)
    for patched in (model, anchor_model) if shares else ():
        if patched is not None:
            share_prefixes(patched, on_request=True)
    return TrainingReplica(model.train(), tokenizer, temperature, template, anchor_model)


class Team:
    """The processes that share the parts of a batch: those of ``replicas``, or else this process alone."""

    def __init__(self, replicas: Replicas | None) -> None:
        self._replicas = replicas
        self._calls: list[Call] = [replica.call for replica in replicas.members] if replicas else []
        self._pool = ThreadPoolExecutor(max(len(self._calls), 1), thread_name_prefix="passes")
        self._count = 0

    def lead(self, own: TrainingReplica) -> TrainingReplica | Replicas:
        """Train ``own``, this process's replica. Returns the policy that plays: the other processes if there are any."""
        self._parameters = list(own.model.parameters())
        if self._replicas:
            return self._replicas
        self._calls = [lambda method, *arguments: getattr(own, method)(*arguments)]
        return own

    def doubts(self) -> set[str]:
        """Why passes stopped sharing prefixes, in any process."""
        return {doubt for found in self._run([("doubts",)] * len(self._calls)) for doubt in found}

    def send_weights(self) -> None:
        """Load the weights in training in every other process."""
        if self._replicas:
            weights = [parameter.detach().numpy() for parameter in self._parameters]
            self._run([("load", weights)] * len(self._calls))

    def scores(self, parts: Sequence[RowPart], anchor: bool) -> list[Scores]:
        """The scores of each part, by the anchor or by the model, whose are differentiable while autograd is on."""
        if anchor or not torch.is_grad_enabled():
            return [(*pair, None) for pair in self.forward(parts, anchor, 0)]
        self._count += 1
        outputs = _Passes.apply(self, self._count, parts, *self._parameters)
        return [(*pair, None) for pair in zip(outputs[: len(parts)], outputs[len(parts) :], strict=True)]

    def forward(self, parts: Sequence[RowPart], anchor: bool, call: int) -> list[tuple[Any, Any]]:
        pairs = self._run_parts("forward", parts, _sizes(parts), anchor, call)
        return [(_tensor(logps), _tensor(entropies)) for logps, entropies in pairs]

    def backward(self, parts: Sequence[RowPart], gradients: Sequence[torch.Tensor], call: int) -> list[torch.Tensor]:
        by_part = self._run_parts("backward", [gradient.numpy() for gradient in gradients], _sizes(parts), call)
        totals = [torch.from_numpy(values).clone() for values in by_part[-1]]
        for part in reversed(by_part[:-1]):  # autograd adds the last part first
            for total, values in zip(totals, part, strict=True):
                total += torch.from_numpy(values)
        return totals

    def _run_parts(self, method: str, parts: Sequence[Any], sizes: Sequence[int], *arguments: Any) -> list[Any]:
        """The results of ``method`` for ``parts`` of these ``sizes``, in the order of the parts."""
        shares = shared(sizes, len(self._calls))
        requests = [(method, [parts[index] for index in share], *arguments) for share in shares]
        results: list[Any] = [None] * len(parts)
        for share, values in zip(shares, self._run(requests), strict=True):
            for index, value in zip(share, values, strict=True):
                results[index] = value
        return results

    def _run(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send one request to each process."""
        if len(requests) == 1:
            return [self._calls[0](*requests[0])]
        return list(self._pool.map(lambda call, request: call(*request), self._calls, requests))


@contextmanager
def team(settings: Shared, job: Job, anchored: bool) -> Iterator[Team | None]:
    """The processes of this machine that share the episodes and the passes of a step; None where they cannot.

    They can on a CPU, if training changes all weights. ``anchored`` says whether the loss has an anchor.
    """
    config, acting = settings.train, settings.policy
    whole = not config.lora.enabled and not config.gradient_checkpointing and config.vllm.mode == "off"
    if not whole or torch.cuda.is_available() or wanted(settings.launch):
        yield None
        return
    anchor_path, sharing = anchor(settings, job) if anchored else None, shares(config, settings.launch)
    dtype = weights_dtype(config, acting)
    arguments = (job.parent, acting.threads, config.temperature, acting.template, dtype, anchor_path, sharing)
    processes = local()
    replicas = Replicas(processes, make_learner, *arguments) if processes else None
    with replicas or nullcontext():
        made = Team(replicas)
        yield made
        doubts.extend(sorted(made.doubts().difference(doubts)))


def shared(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The indices of the parts that each of ``count`` processes takes: the largest part first, to the least loaded process."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += sizes[index]
    return shares


def in_training(model: Any) -> list[torch.nn.Parameter]:
    """The parameters of ``model`` that the optimizer changes."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def copy_weights(parameters: Iterable[torch.nn.Parameter], weights: Iterable[Any]) -> None:
    """Set ``parameters`` to ``weights``, arrays or tensors."""
    with torch.no_grad():
        for parameter, values in zip(parameters, weights, strict=True):
            parameter.copy_(torch.as_tensor(values))


def _sizes(parts: Sequence[RowPart]) -> list[int]:
    return [part.ids.numel() for part in parts]


def _tensor(values: Any) -> torch.Tensor | None:
    return None if values is None else torch.from_numpy(values)


class _Passes(torch.autograd.Function):  # type: ignore[misc]
    """Log-probabilities of all parts, then their entropies, as a function of the parameters."""

    @staticmethod
    def forward(
        ctx: Any, team: Team, call: int, parts: Sequence[RowPart], *parameters: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.team, ctx.call, ctx.parts = team, call, parts
        pairs = team.forward(parts, False, call)
        entropies = tuple(entropy for _, entropy in pairs)
        ctx.mark_non_differentiable(*entropies)
        return (*(logps for logps, _ in pairs), *entropies)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return (None, None, None, *ctx.team.backward(ctx.parts, gradients[: len(ctx.parts)], ctx.call))

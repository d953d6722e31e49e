"""A synthesizer that errs on purpose, so that an experiment can measure the value of verification.

Language models omit calls from a reference and invent identifiers (the hallucinated tasks of CoEvolve's ablation). The
scripted synthesizer does neither.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from coevolve.core.hashing import content_hash
from coevolve.core.records import Candidate, Exploration
from coevolve.core.seeding import rng_for
from coevolve.core.task import Task, ToolCall
from coevolve.environments.chains import is_identifier
from coevolve.stages.synthesize.synthesizer import Synthesizer


class Corrupting:
    """``synthesizer`` with a corrupted reference in a ``share`` of its candidates."""

    def __init__(self, synthesizer: Synthesizer, share: float, seed: int) -> None:
        self._synthesizer = synthesizer
        self._share = share
        self._seed = seed

    def abstract(self, explorations: Sequence[Exploration]) -> Iterator[Iterator[Candidate]]:
        return (map(self._corrupted, candidates) for candidates in self._synthesizer.abstract(explorations))

    def close(self) -> None:
        self._synthesizer.close()

    def _corrupted(self, candidate: Candidate) -> Candidate:
        rng = rng_for("errors", self._seed, candidate.candidate_id)
        return corrupt(candidate, rng) if rng.random() < self._share else candidate


def corrupt(candidate: Candidate, rng: random.Random) -> Candidate:
    """``candidate`` without a call that its instruction asks for, or with an invented identifier.

    If both are possible, each has probability one half.
    """
    reference = [list(turn) for turn in candidate.task.reference]
    identified = [
        (turn, position, key)
        for turn, calls in enumerate(reference)
        for position, call in enumerate(calls)
        for key, value in call.arguments.items()
        if is_identifier(key) and isinstance(value, str)
    ]
    asks = [list(ask) for ask in candidate.asks]
    if identified and (not asks or rng.random() < 0.5):
        turn, position, key = rng.choice(identified)
        call = reference[turn][position]
        made_up = f"{call.arguments[key]}{rng.randrange(10)}"
        reference[turn][position] = ToolCall(call.name, {**call.arguments, key: made_up})
    elif asks:
        turn, position = rng.choice(asks)
        del reference[turn][position]
        asks = [[t, p - (t == turn and p > position)] for t, p in asks if (t, p) != (turn, position)]
    original = candidate.task
    task = Task.create(
        original.environment,
        original.split,
        original.turns,
        original.world,
        reference,
        original.tags,
        original.provenance,
    )
    return replace(candidate, candidate_id=content_hash([task.task_id, candidate.candidate_id]), task=task, asks=asks)

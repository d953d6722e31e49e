"""Synthesizers by name. Each is a module with a function ``make`` that has the signature of ``MakeSynthesizer``."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol

from coevolve.core.records import Candidate, Exploration
from coevolve.core.task import Task
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.environments.mixture import split
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.synthesize.corrupt import Corrupting
from coevolve.stages.synthesize.synthesizer import Synthesizer, synthesize

SYNTHESIZERS = {
    "scripted": "coevolve.stages.synthesize.scripted_synthesizer",
    "endpoint": "coevolve.stages.synthesize.endpoint_synthesizer",
}


class MakeSynthesizer(Protocol):
    def __call__(self, environment: Environment, tasks: Sequence[Task], seed: int, meter: Meter) -> Synthesizer:
        """A synthesizer for ``environment`` that learns its tools from ``tasks``. ``meter`` counts requests to an LLM."""
        ...


def candidates_of(
    environment: Environment,
    tasks: Sequence[Task],
    explorations: Sequence[Exploration],
    config: Synthesize,
    count: int,
    seed: int,
    meter: Meter,
    progress: Callable[[int], object],
) -> list[Candidate]:
    """At most ``count`` candidates from ``explorations``, shared among the environments of a mixture."""
    candidates = []
    for part, share in split(environment, count):
        synthesizer = make_synthesizer(config, part.environment, part.own(tasks), part.seed(seed), meter)
        candidates += synthesize(synthesizer, part.own(explorations), share, progress, config.withhold)
    return candidates


def make_synthesizer(
    config: Synthesize, environment: Environment, tasks: Sequence[Task], seed: int, meter: Meter
) -> Synthesizer:
    """The synthesizer that ``synthesize.synthesizer`` names. It corrupts the share ``synthesize.errors`` of candidates."""
    make: MakeSynthesizer = import_module(SYNTHESIZERS[config.synthesizer]).make
    synthesizer = make(environment, tasks, seed, meter)
    return Corrupting(synthesizer, config.errors, seed) if config.errors else synthesizer

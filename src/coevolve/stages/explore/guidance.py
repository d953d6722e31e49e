"""Guidance of exploration: the weakness and the tools that a request is about.

A guidance is one line of ``GUIDANCES``, or the ``GUIDANCE`` of a module of another package or the project. It decides the
requests, and explorers know it only through their requests.
"""

import bisect
import itertools
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.plugins import Registry
from coevolve.core.records import Signal
from coevolve.core.trajectories import Trajectory

UNLISTED = 1.0  # weight of a tool that an episode offers but the environment's catalogue does not list


@dataclass(frozen=True, slots=True)
class Guidance:
    """``tool`` maps the number of tasks that use a tool to the tool's weight.

    With ``signals``, requests are about signals. Without it, or if all signals weigh 0, requests are about none.
    ``change`` maps the signals, the trajectories, the names of the tools, the iteration and the seed to the signals to use.
    """

    tool: Callable[[int], float]
    signals: bool = False
    change: Callable[[Sequence[Signal], Sequence[Trajectory], Sequence[str], int, int], Sequence[Signal]] | None = None


def seldom(uses: int) -> float:
    """Prefer tools that the dataset seldom uses: exploration should show what training does not."""
    return 1.0 / (1 + uses)


def even(uses: int) -> float:
    """Give every tool the same weight."""
    return 1.0


def weight(signal: Signal, names: Collection[str], tools: Mapping[str, float], singles: int) -> float:
    """The weight of a signal among the signals that share an iteration's requests.

    It is the signal's strength times the largest weight of its tools, ``names``. Signals about pairs of tools are
    divided by ``singles``, the number of signals about a single tool, because there are many more pairs than tools.
    """
    most = max((tools.get(name, UNLISTED) for name in names), default=UNLISTED)
    return signal.strength * most / (singles if len(signal.pattern or ()) > 1 else 1)


GUIDANCES: dict[str, Guidance] = {
    "signals": Guidance(seldom, signals=True),
    "coverage": Guidance(seldom),
    "random": Guidance(even),
    "generator": Guidance(even),  # requests come from the task generator's specs: see ``requests.written``
}
ADDED = Registry("guidance", "coevolve.guidances", {})


def guidances() -> list[str]:
    """The names of all guidances."""
    return [*GUIDANCES, *ADDED.names()]


def guidance(name: str) -> Guidance:
    """The guidance that ``explore.guidance`` names."""
    if name in GUIDANCES:
        return GUIDANCES[name]
    found: Guidance = ADDED.find(name, "GUIDANCE")
    return found


def sample(weights: Sequence[float], count: int, rng: random.Random) -> list[int | None]:
    """``count`` positions in proportion to ``weights`` (systematic sampling), in random order; None if all weigh 0."""
    edges = list(itertools.accumulate(weights))
    if count == 0 or not edges or edges[-1] <= 0.0:
        return [None] * count
    step, start = edges[-1] / count, rng.random()
    drawn: list[int | None] = [
        bisect.bisect(edges, (start + number) * step, hi=len(edges) - 1) for number in range(count)
    ]
    rng.shuffle(drawn)
    return drawn


def draw_tools(tools: Sequence[str], weights: Mapping[str, float], count: int, rng: random.Random) -> list[str]:
    """``count`` draws of ``tools`` in proportion to their weights, with replacement. Empty without tools."""
    if not tools:
        return []
    shares = [weights.get(name, UNLISTED) for name in tools]
    return [rng.choices(tools, shares)[0] for _ in range(count)]

"""What leads exploration: what a request is made around, and which tools it goes for besides. And when explorations are made.

A guidance is one line of ``GUIDANCE``. It makes requests, which hold all that explorers heed of it.
"""

import bisect
import itertools
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.records import Signal
from coevolve.core.task import Task

UNLISTED = 1.0  # weight of a tool that an episode offers and the environment's catalogue does not list


@dataclass(frozen=True, slots=True)
class Guidance:
    """``tool`` weighs a tool of the environment as something to go for, by how many tasks ask for it. With ``signals``, requests are made around signals;
    without, and where all of them weigh 0, around none.
    """

    tool: Callable[[int], float]
    signals: bool = False


def seldom(uses: int) -> float:
    """What the dataset seldom asks for comes first: exploration is for what training does not show."""
    return 1.0 / (1 + uses)


def even(uses: int) -> float:
    """Any tool is as good as another."""
    return 1.0


def weight(signal: Signal, wanted: Collection[str], tools: Mapping[str, float], pairs: int) -> float:
    """What a signal weighs among those that share an iteration's requests: how weak the agent is there, times the weight of
    the weightiest of ``wanted``, the tools that it is about. Pairs of tools count for less by the factor ``pairs``, as there
    are so many more of them.
    """
    most = max((tools.get(name, UNLISTED) for name in wanted), default=UNLISTED)
    return signal.strength * most / (pairs if len(signal.pattern or ()) > 1 else 1)


GUIDANCE: dict[str, Guidance] = {
    "signals": Guidance(seldom, signals=True),
    "coverage": Guidance(seldom),
    "random": Guidance(even),
    "generator": Guidance(even),  # requests are made of what it wrote: see ``requests.written``
}

# How many of `explorations` are made in iteration t.
SCHEDULES: dict[str, Callable[[int, int], int]] = {
    "loop": lambda explorations, t: explorations,
    "upfront": lambda explorations, t: explorations if t == 0 else 0,
}


def sample(weights: Sequence[float], count: int, rng: random.Random) -> list[int | None]:
    """``count`` positions in proportion to ``weights`` (systematic sampling), in random order; None without weight."""
    edges = list(itertools.accumulate(weights))
    if count == 0 or not edges or edges[-1] <= 0.0:
        return [None] * count
    step, start = edges[-1] / count, rng.random()
    drawn: list[int | None] = [
        bisect.bisect(edges, (start + place) * step, hi=len(edges) - 1) for place in range(count)
    ]
    rng.shuffle(drawn)
    return drawn


def draw_tools(tools: Sequence[str], weights: Mapping[str, float], count: int, rng: random.Random) -> list[str]:
    """``count`` draws of ``tools`` in proportion to their weights; a tool may come twice. None of nothing."""
    if not tools:
        return []
    shares = [weights.get(name, UNLISTED) for name in tools]
    return [rng.choices(tools, shares)[0] for _ in range(count)]


def draw_task(tasks: Sequence[Task], weights: Mapping[str, float], rng: random.Random) -> Task:
    """One of ``tasks``, each weighed as the weightiest of its tools: for who can be led by a task alone."""
    shares = [max((weights.get(name, UNLISTED) for name in task.tools), default=UNLISTED) for task in tasks]
    return rng.choices(tasks, shares)[0]

"""An unreliable demonstrator: it takes a look-alike tool, or skips a call, with a chance that each tool has of its own."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.seeding import generator
from coevolve.core.task import ToolCall

WRONG_TOOL = 0.6  # share of its mistakes that take a look-alike, where there is one; the rest skip the call


def chances(tools: Iterable[str], low: float, high: float, seed: int) -> dict[str, float]:
    """How often each tool is got wrong: a profile of strengths and weaknesses, drawn once."""
    return {tool: generator("unreliable", seed, tool).uniform(low, high) for tool in sorted(tools)}


@dataclass(frozen=True, slots=True)
class Unreliable:
    """``chances`` of a mistake by tool, and the look-alikes of each."""

    chances: Mapping[str, float]
    look_alikes: Mapping[str, Sequence[str]]

    def spoilt(self, call: ToolCall, rng: random.Random) -> ToolCall | None:
        """``call`` as it is made: itself, of another tool, or None for not at all."""
        if rng.random() >= self.chances.get(call.name, 0.0):
            return call
        others = self.look_alikes.get(call.name, ())
        if not others or rng.random() > WRONG_TOOL:
            return None
        return ToolCall(rng.choice(others), call.arguments)

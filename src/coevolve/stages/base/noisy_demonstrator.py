"""An unreliable demonstrator: it takes a look-alike tool or skips a call, with a probability for each tool."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.seeding import rng_for
from coevolve.core.task import ToolCall

WRONG_TOOL = 0.6  # share of mistakes that take a look-alike, if the tool has any; the others skip the call


def chances(tools: Iterable[str], low: float, high: float, seed: int) -> dict[str, float]:
    """The probability of a mistake with each tool, drawn once: a profile of strengths and weaknesses."""
    return {tool: rng_for("unreliable", seed, tool).uniform(low, high) for tool in sorted(tools)}


@dataclass(frozen=True, slots=True)
class Unreliable:
    """The ``chances`` of a mistake and the look-alikes, by tool."""

    chances: Mapping[str, float]
    look_alikes: Mapping[str, Sequence[str]]

    def spoilt(self, call: ToolCall, rng: random.Random) -> ToolCall | None:
        """``call`` unchanged, a look-alike tool with the same arguments, or None if the demonstrator skips the call."""
        if rng.random() >= self.chances.get(call.name, 0.0):
            return call
        others = self.look_alikes.get(call.name, ())
        if not others or rng.random() > WRONG_TOOL:
            return None
        return ToolCall(rng.choice(others), call.arguments)

"""Demonstrations for the tiny policy: an expert's episodes, detours included, or an unreliable demonstrator's."""

import random
from collections.abc import Mapping
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import generator
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.environments.miniworld.apps import COMPLETE
from coevolve.environments.miniworld.expert import solve
from coevolve.environments.miniworld.miniworld_environment import LOOKALIKES, MUTATING, Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.policies.text import render_call

WRONG_TOOL = 0.6  # share of the unreliable demonstrator's mistakes that take a look-alike; the rest skip the call


def unreliable_chances(low: float, high: float, seed: int) -> dict[str, float]:
    """How often each state-changing tool is got wrong: a profile of strengths and weaknesses, drawn once."""
    return {tool: generator("unreliable", seed, tool).uniform(low, high) for tool in sorted(MUTATING)}


class _Recorder(MiniworldSession):
    """A session that notes the calls made in it, after it has spoilt some of them."""

    def __init__(self, chances: Mapping[str, float], rng: random.Random) -> None:
        super().__init__()
        self.made: list[tuple[ToolCall, Observation]] = []
        self._chances = chances
        self._rng = rng
        self._mending = False

    def step(self, call: ToolCall) -> Observation:
        # what mends a refusal is never spoilt: the demonstrator reads errors well, and must not loop
        if not self._mending and self._rng.random() < self._chances.get(call.name, 0.0):
            others = LOOKALIKES[call.name]
            if not others or self._rng.random() > WRONG_TOOL:
                return Observation("tool", "ok")
            call = ToolCall(self._rng.choice(others), call.arguments)
        turn = super().step(call)
        self._mending = turn.error
        self.made.append((call, turn))
        return turn


def demonstrate(task: Task, chances: Mapping[str, float], rng: random.Random) -> list[dict[str, Any]]:
    """The messages of one episode of ``task``; empty ``chances`` make it right."""
    session = _Recorder(chances, rng)
    try:
        solve(session, task, task.world["intent"])
    except CoevolveError:
        if not chances:
            raise
        MiniworldSession.step(session, ToolCall(COMPLETE))
        session.made.append((ToolCall(COMPLETE), Observation("tool", "ok", done=True)))
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]
    for call, turn in session.made:
        messages.append({"role": "assistant", "content": render_call(call)})
        if not turn.done:
            messages.append({"role": "tool", "content": turn.content})
    return messages


def demonstrations(count: int, seed: int, chances: Mapping[str, float]) -> list[list[dict[str, Any]]]:
    """``count`` episodes over all families evenly, of tasks that are in no panel's stream of seeds."""
    tasks = Miniworld.generate("base", count, seed, every=True)
    return [demonstrate(task, chances, generator("demonstrate", seed, n)) for n, task in enumerate(tasks)]

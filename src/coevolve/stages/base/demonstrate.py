"""Demonstrations for the tiny policy: an expert's episodes, detours included, or an unreliable demonstrator's."""

import random
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import generator
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.environments.miniworld.apps import COMPLETE
from coevolve.environments.miniworld.expert import solve
from coevolve.environments.miniworld.miniworld_environment import LOOKALIKES, MUTATING, Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.policies.agent_prompt import render_call
from coevolve.stages.base.noisy_demonstrator import Unreliable, chances


def unreliable(low: float, high: float, seed: int) -> Unreliable:
    """A demonstrator that gets state-changing tools wrong, each with a chance of its own between ``low`` and ``high``."""
    return Unreliable(chances(MUTATING, low, high, seed), LOOKALIKES)


RELIABLE = Unreliable({}, {})


class _Recorder(MiniworldSession):
    """A session that notes the calls made in it, after it has spoilt some of them."""

    def __init__(self, demonstrator: Unreliable, rng: random.Random) -> None:
        super().__init__()
        self.made: list[tuple[ToolCall, Observation]] = []
        self._demonstrator = demonstrator
        self._rng = rng
        self._mending = False

    def step(self, call: ToolCall) -> Observation:
        # what mends a refusal is never spoilt: the demonstrator reads errors well, and must not loop
        made = call if self._mending else self._demonstrator.spoilt(call, self._rng)
        if made is None:
            return Observation("tool", "ok")
        call = made
        turn = super().step(call)
        self._mending = turn.error
        self.made.append((call, turn))
        return turn


def demonstrate(task: Task, demonstrator: Unreliable, rng: random.Random) -> list[dict[str, Any]]:
    """The messages of one episode of ``task``."""
    session = _Recorder(demonstrator, rng)
    try:
        solve(session, task, task.world["intent"])
    except CoevolveError:
        if not demonstrator.chances:
            raise
        MiniworldSession.step(session, ToolCall(COMPLETE))
        session.made.append((ToolCall(COMPLETE), Observation("tool", "ok", done=True)))
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]
    for call, turn in session.made:
        messages.append({"role": "assistant", "content": render_call(call)})
        if not turn.done:
            messages.append({"role": "tool", "content": turn.content})
    return messages


def demonstrations(count: int, seed: int, demonstrator: Unreliable) -> list[list[dict[str, Any]]]:
    """``count`` episodes over all families evenly, of tasks that are in no panel's stream of seeds."""
    tasks = Miniworld.generate("base", count, seed, every=True)
    return [demonstrate(task, demonstrator, generator("demonstrate", seed, n)) for n, task in enumerate(tasks)]

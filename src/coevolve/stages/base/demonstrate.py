"""Demonstrations for the tiny policy: episodes of an expert, detours included, or of an unreliable demonstrator."""

import random
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import rng_for
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.environments.miniworld.apps import COMPLETE
from coevolve.environments.miniworld.expert import solve
from coevolve.environments.miniworld.miniworld_environment import LOOKALIKES, MUTATING, Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.policies.agent_prompt import render_call
from coevolve.stages.base.noisy_demonstrator import Unreliable, chances


def unreliable(low: float, high: float, seed: int) -> Unreliable:
    """A demonstrator that misuses each state-changing tool with a probability drawn between ``low`` and ``high``."""
    return Unreliable(chances(MUTATING, low, high, seed), LOOKALIKES)


RELIABLE = Unreliable({}, {})


class _Recorder(MiniworldSession):
    """A session that corrupts some calls, makes all calls and records them."""

    def __init__(self, demonstrator: Unreliable, rng: random.Random) -> None:
        super().__init__()
        self.calls: list[tuple[ToolCall, Observation]] = []
        self._demonstrator = demonstrator
        self._rng = rng
        self._correcting = False

    def step(self, call: ToolCall) -> Observation:
        # a call after an error is never corrupted: otherwise the demonstrator could repeat the error forever
        spoilt = call if self._correcting else self._demonstrator.spoilt(call, self._rng)
        if spoilt is None:
            return Observation("tool", "ok")
        observation = super().step(spoilt)
        self._correcting = observation.error
        self.calls.append((spoilt, observation))
        return observation


def demonstrate(task: Task, demonstrator: Unreliable, rng: random.Random) -> list[dict[str, Any]]:
    """The messages of one episode of ``task``."""
    session = _Recorder(demonstrator, rng)
    try:
        solve(session, task, task.world["intent"])
    except CoevolveError:
        if not demonstrator.chances:
            raise
        MiniworldSession.step(session, ToolCall(COMPLETE))
        session.calls.append((ToolCall(COMPLETE), Observation("tool", "ok", done=True)))
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]
    for call, observation in session.calls:
        messages.append({"role": "assistant", "content": render_call(call)})
        if not observation.done:
            messages.append({"role": "tool", "content": observation.content})
    return messages


def demonstrations(count: int, seed: int, demonstrator: Unreliable) -> list[list[dict[str, Any]]]:
    """``count`` episodes, evenly over all task families; their seeds do not overlap with those of any panel."""
    tasks = Miniworld.generate("base", count, seed, every=True)
    return [demonstrate(task, demonstrator, rng_for("demonstrate", seed, n)) for n, task in enumerate(tasks)]

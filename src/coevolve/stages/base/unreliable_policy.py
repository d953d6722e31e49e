"""Replay references with the mistakes of an unreliable demonstrator."""

from collections.abc import Sequence

from coevolve.core.seeding import rng_for
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.stages.base.noisy_demonstrator import Unreliable, chances


class UnreliablePolicy(ReferencePolicy):
    """Replays references with the mistakes of ``demonstrator``."""

    def __init__(self, environment: Environment, demonstrator: Unreliable) -> None:
        super().__init__(environment)
        self._demonstrator = demonstrator

    def planned(self, conversation: Conversation) -> list[list[ToolCall]]:
        rng = rng_for("unreliable demonstrator", conversation.seed)
        turns = ([self._demonstrator.spoilt(call, rng) for call in turn] for turn in super().planned(conversation))
        return [[call for call in turn if call is not None] for turn in turns]


def unreliable(environment: Environment, tasks: Sequence[Task], low: float, high: float, seed: int) -> Unreliable:
    """A demonstrator that sometimes replaces a state-changing tool by another with the same arguments, or skips the call."""
    changing = learn(environment, tasks).changing
    functions = [schema["function"] for schema in environment.tools()]
    keys = {function["name"]: frozenset(function["parameters"].get("properties", {})) for function in functions}
    look_alikes = {
        name: [other for other in sorted(changing) if other != name and keys.get(other) == keys.get(name)]
        for name in changing
    }
    return Unreliable(chances(changing, low, high, seed), look_alikes)

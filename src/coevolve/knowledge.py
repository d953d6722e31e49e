"""What is known about an environment's tools: values that fit, where values come from, how tasks end.

It is learnt from references, replayed in the environment itself, and from the agent's calls that the environment accepted.
Of the environment only its tools' schemas are assumed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coevolve.chains import replay, source_of
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment

Place = tuple[str, str]  # a tool and one of its arguments
REPLAYED = 400  # known tasks that are replayed, at most


@dataclass
class Knowledge:
    """What was learnt, by tool and argument.

    ``values``: arguments that were right. ``sources``: the tools whose observations held them. ``uses``: how many known
    tasks use a tool. ``changing``: tools that changed the state at least once; ``reading``: tools that never did.
    ``terminal``: the tool that ends every known task, if there is one; ``answer``: its argument that takes what a lookup
    found.
    """

    values: dict[Place, list[Any]] = field(default_factory=lambda: defaultdict(list))
    sources: dict[Place, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    uses: Counter[str] = field(default_factory=Counter)
    changing: set[str] = field(default_factory=set)
    reading: set[str] = field(default_factory=set)
    terminal: str | None = None
    answer: str | None = None

    def fitting(self, tool: str, key: str) -> list[Any]:
        """Values known for this argument, else for arguments of the same name."""
        own = self.values.get((tool, key))
        return own or [value for (_, other), values in self.values.items() if other == key for value in values]

    def source(self, tool: str, key: str) -> Counter[str]:
        """Tools that reveal values of this argument, else of arguments of the same name."""
        own = self.sources.get((tool, key))
        if own:
            return own
        shared: Counter[str] = Counter()
        for (_, other), tools in self.sources.items():
            if other == key:
                shared.update(tools)
        return shared


def uses(tasks: Iterable[Task]) -> Counter[str]:
    """By tool: how many of ``tasks`` use it."""
    return Counter(name for task in tasks for name in task.tools)


def learn(environment: Environment, tasks: Sequence[Task], trajectories: Sequence[Trajectory] = ()) -> Knowledge:
    """Knowledge from the references of ``tasks`` (the first ``REPLAYED`` of them) and from ``trajectories``."""
    known = Knowledge()
    session = environment.open()
    last: Counter[str] = Counter()
    known.uses = uses(tasks)
    for task in tasks[:REPLAYED]:
        chain, changed, ended = replay(session, task)
        for position, call in enumerate(chain):
            if not call.ok:
                continue
            (known.changing if changed[position] else known.reading).add(call.name)
            for key, value in call.arguments.items():
                _note(known, chain, position, key, value)
        if ended and chain:
            last[chain[-1].name] += 1
    session.close()
    known.reading -= known.changing
    for trajectory in trajectories:
        made = [call for call in trajectory.calls if call.ok and not fruitless(call.observation)]
        for position, call in enumerate(made):
            for key, value in call.arguments.items():
                if grounded(key, value, trajectory, made, position):
                    _note(known, made, position, key, value)
    if last and last.most_common(1)[0][1] == min(len(tasks), REPLAYED):
        known.terminal = last.most_common(1)[0][0]
        known.reading.discard(known.terminal)
        known.changing.discard(known.terminal)
        keys = [key for (tool, key), tools in known.sources.items() if tool == known.terminal and tools]
        known.answer = keys[0] if keys else None
    return known


def fruitless(observation: str) -> bool:
    """Whether a lookup found nothing."""
    return observation in ("[]", "{}")


def grounded(key: str, value: Any, trajectory: Trajectory, made: Sequence[CallOutcome], position: int) -> bool:
    """Whether the agent took a value from the user's words or from an observation, and did not make it up."""
    words = {
        word for message in trajectory.messages if message["role"] == "user" for word in message["content"].split()
    }
    given = str(value).split()
    return (bool(given) and set(given) <= words) or source_of(key, value, made, position, single=False) is not None


def _note(known: Knowledge, chain: Sequence[CallOutcome], position: int, key: str, value: Any) -> None:
    place = (chain[position].name, key)
    if value not in known.values[place]:
        known.values[place].append(value)
    if (origin := source_of(key, value, chain, position, single=False)) is not None:
        known.sources[place][chain[origin].name] += 1

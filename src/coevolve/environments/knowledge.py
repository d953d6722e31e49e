"""Knowledge about an environment's tools: values that fit, where values come from, how tasks end.

Two sources teach it: references, replayed in the environment, and the agent's calls that the environment accepted. It
assumes nothing about the environment except the schemas of its tools.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coevolve.core.interruptions import contained, hopeless
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.chains import Played, replay, source_of
from coevolve.environments.environment import Environment
from coevolve.environments.user_habits import Argument, UserHabits, habits_of

REPLAYED = 400  # most tasks that ``learn`` replays


@dataclass
class Knowledge:
    """Facts by tool and argument.

    ``values`` are arguments that were right, and ``sources`` the tools whose observations held them. ``uses`` counts the
    known tasks that use a tool. Tools in ``changing`` changed the state at least once, tools in ``reading`` never did.
    ``terminal`` is the tool that ends every known task, and ``answer`` its argument that takes a lookup's result. Both
    are None in environments without such a tool. ``habits`` are the users', unless the world or a complete phrasebook says how its tasks are.
    """

    values: dict[Argument, list[Any]] = field(default_factory=lambda: defaultdict(list))
    sources: dict[Argument, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    uses: Counter[str] = field(default_factory=Counter)
    changing: set[str] = field(default_factory=set)
    reading: set[str] = field(default_factory=set)
    terminal: str | None = None
    answer: str | None = None
    habits: UserHabits | None = None

    def asks_for(self, lookup: str) -> bool:
        """Whether users want the result of ``lookup`` for itself: known tasks ask for it, or none uses it."""
        return self.habits is None or lookup in self.habits.asked or lookup not in self.uses

    def fitting(self, tool: str, key: str) -> list[Any]:
        """Values known for this argument, or else for arguments of the same name."""
        exact = self.values.get((tool, key))
        return exact or [value for (_, other), values in self.values.items() if other == key for value in values]

    def source(self, tool: str, key: str) -> Counter[str]:
        """Tools that reveal values of this argument, or else of arguments of the same name."""
        shared = (tools for (_, other), tools in self.sources.items() if other == key)
        return self.sources.get((tool, key)) or sum(shared, Counter())


def uses(tasks: Iterable[Task]) -> Counter[str]:
    """The number of ``tasks`` that use each tool."""
    return Counter(name for task in tasks for name in task.tools)


def learn(environment: Environment, tasks: Sequence[Task], trajectories: Sequence[Trajectory] = ()) -> Knowledge:
    """Learn from the references of the first ``REPLAYED`` of ``tasks`` and from ``trajectories``.

    Tasks end in the terminal tool if every task of the environment does; a synthesized one may lack it by mistake.
    """
    spoken = environment.phrasebook.complete or environment.goals  # a world with goals says its tasks itself
    knowledge = Knowledge(habits=None if spoken else habits_of(environment))
    session = environment.open()
    last: Counter[str] = Counter()
    some = tasks[:REPLAYED]
    own = {task.task_id for task in some if task.provenance is None} or {task.task_id for task in some}
    knowledge.uses = uses(tasks)
    causes: list[str] = []
    for task in some:
        played = Played([])
        with contained(causes):
            played = replay(session, task)
        chain = played.chain
        for position, call in enumerate(chain):
            if not call.ok:
                continue
            (knowledge.changing if played.changed[position] else knowledge.reading).add(call.name)
            for key, value in call.arguments.items():
                _note(knowledge, chain, position, key, value)
        if played.ended and chain and task.task_id in own:
            last[chain[-1].name] += 1
    session.close()
    hopeless(causes, len(some), "references")
    knowledge.reading -= knowledge.changing
    # an agent may give an argument the value of another, so those that tasks show learn no value from it
    shown = set(knowledge.values) if knowledge.habits else set()
    for trajectory in trajectories:
        calls = [call for call in trajectory.calls if call.ok and not fruitless(call.observation)]
        for position, call in enumerate(calls):
            for key, value in call.arguments.items():
                if (call.name, key) not in shown and grounded(key, value, trajectory, calls, position):
                    _note(knowledge, calls, position, key, value)
    if last and last.most_common(1)[0][1] == len(own):
        knowledge.terminal = last.most_common(1)[0][0]
        knowledge.reading.discard(knowledge.terminal)
        knowledge.changing.discard(knowledge.terminal)
        keys = [key for (tool, key), tools in knowledge.sources.items() if tool == knowledge.terminal and tools]
        knowledge.answer = keys[0] if keys else None
    return knowledge


def fruitless(observation: str) -> bool:
    """Whether a lookup found nothing."""
    return observation in ("[]", "{}")


def grounded(key: str, value: Any, trajectory: Trajectory, calls: Sequence[CallOutcome], position: int) -> bool:
    """Whether the agent took a value from the user's words or from an observation instead of inventing it."""
    words = {
        word for message in trajectory.messages if message["role"] == "user" for word in message["content"].split()
    }
    given = str(value).split()
    return (bool(given) and set(given) <= words) or source_of(key, value, calls, position, single=False) is not None


def _note(knowledge: Knowledge, chain: Sequence[CallOutcome], position: int, key: str, value: Any) -> None:
    argument = (chain[position].name, key)
    if value not in knowledge.values[argument]:
        knowledge.values[argument].append(value)
    if (origin := source_of(key, value, chain, position, single=False)) is not None:
        knowledge.sources[argument][chain[origin].name] += 1

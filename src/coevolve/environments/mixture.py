"""Several environments as one. Every task still belongs to one of them.

Tools of the same name may differ between environments. So code that uses tools handles one environment at a time:
``Environment.of`` and ``parts`` give it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from coevolve.core.errors import CoevolveError
from coevolve.core.mixtures import apportioned, in_turn, mixture
from coevolve.core.records import Signal
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment, Session
from coevolve.environments.lexicon import Meaning


class Owned(Protocol):
    @property
    def environment(self) -> str: ...


Record = TypeVar("Record", bound=Owned)


class Mixture(Environment):
    """``parts`` by name, each with its share of seed tasks, training, explorations and candidates.

    A split has the tasks of all parts that have this split, interleaved: any number of first tasks has the parts' shares.
    """

    def __init__(self, parts: Mapping[str, Environment], given: Mapping[str, float]) -> None:
        every = list(parts.values())
        self.members, self.shares = dict(parts), dict(given)
        self.name = mixture(given)
        self.fingerprint = "; ".join(one.fingerprint for one in every)
        self.panels = tuple(dict.fromkeys(panel for one in every for panel in one.panels))
        self.more_splits = tuple(
            split for split in every[0].more_splits if all(split in one.more_splits for one in every)
        )
        self.license = " AND ".join(dict.fromkeys(one.license for one in every))
        self.capacity = min((one.capacity for one in every if one.capacity is not None), default=None)
        self.quarantine = {item: why for one in every for item, why in one.quarantine.items()}

    def of(self, task: Task) -> Environment:
        if task.environment not in self.members:
            known = ", ".join(self.members)
            raise CoevolveError(
                f"task {task.task_id} belongs to environment {task.environment!r}, expected one of: {known}"
            )
        return self.members[task.environment]

    def load_tasks(self, split: str) -> Sequence[Task]:
        own = {
            name: one.tasks(split)
            for name, one in self.members.items()
            if split in ("seed", *one.panels, *one.more_splits)
        }
        return in_turn(own, self.shares)

    def tools(self) -> Sequence[dict[str, Any]]:
        """One tool of each name. ``reset`` gives the tools that a task offers."""
        by_name = {tool["function"]["name"]: tool for one in reversed(self.members.values()) for tool in one.tools()}
        return list(by_name.values())

    def open(self) -> "MixtureSession":
        return MixtureSession(self)

    def reference(self, task: Task) -> list[list[ToolCall]]:
        return self.of(task).reference(task)

    def reading(self, task: Task) -> list[ToolCall] | None:
        return self.of(task).reading(task)

    def meaning(self, task: Task) -> Meaning | None:
        return self.of(task).meaning(task)

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        return self.of(task).fresh_world(task, seed)

    def category(self, task: Task) -> str:
        return f"{task.environment}: {self.of(task).category(task)}"

    def scenario(self, task: Task) -> str:
        return f"{task.environment}: {self.of(task).scenario(task)}"

    def sources(self) -> dict[str, str]:
        return {file: digest for one in self.members.values() for file, digest in one.sources().items()}


class MixtureSession(Session):
    """A session for each environment whose tasks it has played. The current session is that of the last task."""

    def __init__(self, whole: Mixture) -> None:
        self._whole = whole
        self._sessions: dict[str, Session] = {}
        self._now = ""

    def reset(self, task: Task) -> Observation:
        owner, self._now = self._whole.of(task), task.environment
        if self._now not in self._sessions:
            self._sessions[self._now] = owner.open()
        return self._begun().reset(task)

    def _begun(self) -> Session:
        if self._now not in self._sessions:
            raise CoevolveError("no task was started; call reset() first")
        return self._sessions[self._now]

    def step(self, call: ToolCall) -> Observation:
        return self._begun().step(call)

    def say(self, text: str) -> Observation:
        return self._begun().say(text)

    def score(self) -> Score:
        return self._begun().score()

    def digest(self) -> str:
        return self._begun().digest()

    def begin_reply(self) -> None:
        self._begun().begin_reply()

    def close(self) -> None:
        for one in self._sessions.values():
            one.close()
        self._sessions = {}


@dataclass(frozen=True)
class Part:
    """An environment of a run with its share of the run. A single environment has share 1."""

    environment: Environment
    share: float

    def own(self, records: Iterable[Record]) -> list[Record]:
        return [one for one in records if one.environment == self.environment.name]

    def played(self, trajectories: Iterable[Trajectory], tasks: Iterable[Task]) -> list[Trajectory]:
        """The trajectories at ``tasks`` of this environment."""
        ours = {task.task_id for task in tasks}
        return [one for one in trajectories if self.share == 1.0 or one.task_id in ours]

    def about(self, signals: Iterable[Signal], tasks: Iterable[Task], played: Iterable[Trajectory]) -> list[Signal]:
        """The signals about one of its ``tasks``, or with one of the trajectories ``played`` there."""
        ours, shown = {task.task_id for task in tasks}, {one.trajectory_id for one in played}
        return [
            one
            for one in signals
            if self.share == 1.0
            or (not shown.isdisjoint(one.trajectory_ids) if one.task_id is None else one.task_id in ours)
        ]

    def seed(self, seed: int) -> int:
        """A seed that differs between the environments of a mixture."""
        return seed if self.share == 1.0 else derive_seed("environment", seed, self.environment.name)


def parts(environment: Environment) -> list[Part]:
    """The environments of a mixture. Any other environment is its only part."""
    if not isinstance(environment, Mixture):
        return [Part(environment, 1.0)]
    return [Part(one, environment.shares[name]) for name, one in environment.members.items()]


def shares_of(environment: Environment) -> dict[str, float]:
    """The share of each environment, by name."""
    return {one.environment.name: one.share for one in parts(environment)}


def split(environment: Environment, count: int) -> list[tuple[Part, int]]:
    """The parts, each with its number out of ``count``."""
    found = parts(environment)
    rooms = apportioned(shares_of(environment), count)
    return [(one, rooms[one.environment.name]) for one in found]

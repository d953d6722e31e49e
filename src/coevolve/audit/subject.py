"""The environment that an audit looks at: some of its tasks, and episodes in it in which nothing can raise."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import TypeVar

from coevolve.core.task import Observation, Task, ToolCall
from coevolve.environments.environment import Environment, Session, blameless, quarantined
from coevolve.knowledge import Knowledge, learn

Calls = Sequence[Sequence[ToolCall]]  # of each turn
MOST_CALLS = 64  # of a turn
Answer = TypeVar("Answer")


def name(task: Task) -> str:
    """How evidence speaks of a task."""
    return f"{task.split} {task.task_id}"


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """What was heard, ``reset`` included, and how it was scored. ``broken``: what a call raised, after which the score is 0."""

    heard: list[Observation]
    reward: float
    checks: dict[str, bool]
    digest: str
    broken: str = ""

    @property
    def said(self) -> list[str]:
        return [one.content for one in self.heard]


@dataclass
class Subject:
    """``count`` tasks of each split are looked at, spread over it."""

    environment: Environment
    count: int
    seconds: dict[str, list[float]] = field(default_factory=dict)  # that each kind of request took

    @cached_property
    def splits(self) -> dict[str, Sequence[Task]]:
        return {split: self.environment.tasks(split) for split in ("seed", *self.environment.panels)}

    @cached_property
    def some(self) -> dict[str, list[Task]]:
        """Of each split ``count`` tasks at equal distances, without those that are known to be unsolvable."""
        found = {}
        for split, tasks in self.splits.items():
            bad = quarantined(self.environment, tasks)
            good = [task for task in tasks if task.task_id not in bad]
            step = max(len(good) / self.count, 1.0)
            found[split] = [good[int(place * step)] for place in range(min(self.count, len(good)))]
        return found

    @property
    def tasks(self) -> Iterator[Task]:
        for tasks in self.some.values():
            yield from tasks

    @cached_property
    def known(self) -> Knowledge:
        """What the references of the training split teach of the tools."""
        return learn(self.environment, self.some["seed"])

    def play(self, task: Task, calls: Calls, says: str = "done") -> PlayedEpisode:
        """An episode of these ``calls``, turn by turn; after each turn's, ``says`` is said."""
        with closing(self.environment.open()) as session:
            heard = [self._timed("reset", session.reset, task)]
            try:
                for turn in calls[: len(task.turns)] or [[]]:
                    if not self._turn(session, turn, heard):
                        break
                    heard.append(session.say(says))
                    if heard[-1].done:
                        break
            except Exception as error:
                if blameless(error, self.environment, task):
                    raise
                return PlayedEpisode(heard, 0.0, {}, "", f"{type(error).__name__}: {error}")
            score = self._timed("score", session.score)
            return PlayedEpisode(heard, score.reward, dict(score.checks), session.digest())

    def _turn(self, session: Session, turn: Sequence[ToolCall], heard: list[Observation]) -> bool:
        """Whether the episode goes on."""
        for call in turn[:MOST_CALLS]:
            heard.append(self._timed("step", session.step, call))
            if heard[-1].done:
                return False
        return True

    def reference(self, task: Task) -> PlayedEpisode:
        return self.play(task, self.environment.reference(task))

    @contextmanager
    def idle(self, task: Task) -> Iterator[Session]:
        """A session in which nothing is done."""
        with closing(self.environment.open()) as session:
            session.reset(task)
            yield session

    def bad(self) -> set[str]:
        """Ids of tasks that are known to be unsolvable."""
        return {one for tasks in self.splits.values() for one in quarantined(self.environment, tasks)}

    def costs(self) -> dict[str, float]:
        """The median of each kind of request so far, in milliseconds."""
        return {kind: median(found) * 1000.0 for kind, found in self.seconds.items()}

    def _timed(self, kind: str, ask: Callable[..., Answer], *arguments: object) -> Answer:
        began = time.perf_counter()
        try:
            return ask(*arguments)
        finally:
            self.seconds.setdefault(kind, []).append(time.perf_counter() - began)

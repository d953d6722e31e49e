"""The environment under audit: a sample of its tasks, and episodes in it.

This module checks the types of all values that an environment returns, so that checks can rely on them.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, TypeVar

from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session, blameless, quarantined
from coevolve.environments.knowledge import Knowledge, learn

Calls = Sequence[Sequence[ToolCall]]  # the calls of each turn
MOST_CALLS = 64  # per turn
Answer = TypeVar("Answer")


def name(task: Task) -> str:
    """The name of a task in evidence."""
    return f"{task.split} {task.task_id}"


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """The answers of an episode, including that of ``reset``, and its score.

    ``broken``: the error of a call, after which the score is 0. ``flaws``: answers of the wrong type.
    """

    heard: list[Observation]
    reward: float
    checks: dict[str, bool]
    digest: str
    broken: str = ""
    flaws: Sequence[str] = ()

    @property
    def said(self) -> list[str]:
        return [one.content for one in self.heard]


@dataclass
class Subject:
    """Checks use ``count`` tasks of each split, spread over it. ``place`` is the environment's name, or MODULE:CLASS."""

    environment: Environment
    count: int
    place: str
    seconds: dict[str, list[float]] = field(default_factory=dict)  # durations by kind of request

    @cached_property
    def splits(self) -> dict[str, Sequence[Task]]:
        return {split: _tasks(self.environment, split) for split in ("seed", *self.environment.panels)}

    @cached_property
    def some(self) -> dict[str, list[Task]]:
        """``count`` tasks of each split at equal distances, without tasks that are known to be unsolvable."""
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
    def tools(self) -> list[dict[str, Any]]:
        return list(self.environment.tools())

    @cached_property
    def known(self) -> Knowledge:
        """Knowledge about the tools from the references of the training split."""
        return learn(self.environment, self.some["seed"])

    def play(self, task: Task, calls: Calls, says: str = "done") -> PlayedEpisode:
        """Play an episode with these ``calls``, turn by turn, and with the message ``says`` after each turn."""
        heard: list[Observation] = []
        flaws: list[str] = []
        try:
            with closing(self.environment.open()) as session:
                self._hear("reset", heard, session.reset, task)
                self._turns(session, task, calls, says, heard, flaws)
                score = _sound(self._timed("score", session.score))
                digest = _digest(session.digest(), flaws)
                return PlayedEpisode(heard, score.reward, dict(score.checks), digest, flaws=flaws)
        except Exception as error:
            if not heard or blameless(error, self.environment, task):
                raise
            return PlayedEpisode(heard, 0.0, {}, "", f"{type(error).__name__}: {error}", flaws)

    def _turns(
        self, session: Session, task: Task, calls: Calls, says: str, heard: list[Observation], flaws: list[str]
    ) -> None:
        """Make the calls of each turn until the episode ends."""
        turns = calls[: len(task.turns)] or [[]]
        for turn in turns:
            for call in turn[:MOST_CALLS]:
                if self._hear("step", heard, session.step, call).done:
                    return
            if self._hear("say", heard, session.say, says).done:
                return
        if len(turns) >= len(task.turns):
            flaws.append("say() does not end the episode after its last turn")

    def _hear(self, kind: str, heard: list[Observation], ask: Callable[..., Any], *arguments: object) -> Observation:
        """The answer to a request, which is added to ``heard``."""
        answer = self._timed(kind, ask, *arguments)
        if not isinstance(answer, Observation) or not isinstance(answer.content, str):
            raise TypeError(f"{kind}() does not return an Observation with a text as its content")
        heard.append(answer)
        return answer

    def reference(self, task: Task) -> PlayedEpisode:
        return self.play(task, self.environment.reference(task))

    @contextmanager
    def idle(self, task: Task) -> Iterator[Session]:
        """A session without calls."""
        with closing(self.environment.open()) as session:
            session.reset(task)
            yield session

    def bad(self) -> set[str]:
        """The ids of tasks that are known to be unsolvable."""
        return {one for tasks in self.splits.values() for one in quarantined(self.environment, tasks)}

    def costs(self) -> dict[str, float]:
        """The median duration of each kind of request so far, in milliseconds."""
        return {kind: median(found) * 1000.0 for kind, found in self.seconds.items()}

    def _timed(self, kind: str, ask: Callable[..., Answer], *arguments: object) -> Answer:
        began = time.perf_counter()
        try:
            return ask(*arguments)
        finally:
            self.seconds.setdefault(kind, []).append(time.perf_counter() - began)


def _tasks(environment: Environment, split: str) -> list[Task]:
    """The tasks of a split. An object that is not a task is an error."""
    tasks = list(environment.tasks(split))
    for number, task in enumerate(tasks):
        if not _is_task(task):
            raise TypeError(f"task {number} of split {split} is not a Task of texts, a world and calls")
    return tasks


def _is_task(task: object) -> bool:
    if not isinstance(task, Task) or not isinstance(task.task_id, str) or not isinstance(task.world, dict):
        return False
    if not all(isinstance(part, list) for part in (task.turns, task.tags, task.reference, *task.reference)):
        return False
    texts = all(isinstance(text, str) for text in (*task.turns, *task.tags))
    calls = [call for turn in task.reference for call in turn]
    return texts and all(isinstance(call, ToolCall) and isinstance(call.arguments, dict) for call in calls)


def _sound(score: object) -> Score:
    """``score`` if it is a Score. A reward that is not a finite number is an error. A check finds rewards outside [0, 1]."""
    if not isinstance(score, Score):
        raise TypeError("score() does not return a Score")
    if not isinstance(score.reward, int | float) or not math.isfinite(score.reward):
        raise ValueError(f"score() returns a reward of {str(score.reward)[:40]}")
    return score


def _digest(digest: object, flaws: list[str]) -> str:
    if not isinstance(digest, str):
        flaws.append(f"digest() returns an object of type {type(digest).__name__}, expected a text")
    return str(digest)

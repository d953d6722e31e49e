"""The environment under audit: a sample of its tasks, and episodes in it.

This module checks the types of all values that an environment returns, so that checks can rely on them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.io import parse
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session, blameless, quarantined
from coevolve.environments.knowledge import Knowledge, learn

Calls = Sequence[Sequence[ToolCall]]  # the calls of each turn
MOST_CALLS = 64  # per turn


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

    @property
    def identity(self) -> str:
        """A hash of all answers, the score and the last digest."""
        heard = [[one.role, one.content, one.error, one.done] for one in self.heard]
        return content_hash([heard, self.reward, self.checks, self.digest, self.broken])


@dataclass
class Subject:
    """Checks use ``count`` tasks of each split, spread over it. ``place`` is the environment's name, or MODULE:CLASS."""

    environment: Environment
    count: int
    place: str

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

    def reference(self, task: Task) -> PlayedEpisode:
        return self.play(task, self.environment.reference(task))

    def nothing(self, task: Task) -> PlayedEpisode:
        return self.play(task, [[] for _ in task.turns])

    def play(self, task: Task, calls: Calls, says: str = "done") -> PlayedEpisode:
        """Play an episode with these ``calls``, turn by turn, and with the message ``says`` after each turn."""
        heard: list[Observation] = []
        flaws: list[str] = []
        try:
            with closing(self.environment.open()) as session:
                _hear(heard, session.reset, task)
                if not _ended(session, task, calls, says, heard) and max(len(calls), 1) >= len(task.turns):
                    flaws.append("say() does not end the episode after its last turn")
                score, digest = session.score(), session.digest()
                if not isinstance(score, Score) or not math.isfinite(score.reward):
                    raise ValueError(f"score() returns {str(score)[:40]}, expected a Score with a finite reward")
                if not 0.0 <= score.reward <= 1.0:
                    flaws.append(f"a reward of {score.reward}")
                if not isinstance(digest, str):
                    flaws.append(f"digest() returns an object of type {type(digest).__name__}, expected a text")
                if (session.score(), session.digest()) != (score, digest):
                    flaws.append("score() changes the world, or returns another result the second time")
                return PlayedEpisode(heard, score.reward, dict(score.checks), str(digest), flaws=flaws)
        except Exception as error:
            if not heard or blameless(error, self.environment, task):
                raise
            return PlayedEpisode(heard, 0.0, {}, "", f"{type(error).__name__}: {error}", flaws)


def _ended(session: Session, task: Task, calls: Calls, says: str, heard: list[Observation]) -> bool:
    """Make the calls of each turn. Returns whether the episode ended."""
    for turn in calls[: len(task.turns)] or [[]]:
        if any(_hear(heard, session.step, call).done for call in turn[:MOST_CALLS]):
            return True
        if _hear(heard, session.say, says).done:
            return True
    return False


def _hear(heard: list[Observation], ask: Callable[..., Any], *arguments: object) -> Observation:
    """The answer to a request, which is added to ``heard``."""
    answer = ask(*arguments)
    if not isinstance(answer, Observation) or not isinstance(answer.content, str):
        raise TypeError(f"{ask.__name__}() does not return an Observation with a text as its content")
    heard.append(answer)
    return answer


def _tasks(environment: Environment, split: str) -> list[Task]:
    """The tasks of a split. An object that is not a task of texts, a world and calls is an error."""
    tasks = list(environment.tasks(split))
    for number, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise TypeError(f"task {number} of split {split} is not a Task")
        parse(Task, asdict(task), f"task {number} of split {split}")
    return tasks

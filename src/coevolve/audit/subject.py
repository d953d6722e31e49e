"""An audit: the environment with a sample of its tasks and episodes in it, the table of checks, and their findings.

This module checks the types of all values that an environment returns, so that checks can rely on them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from coevolve.core.concurrency import Threads
from coevolve.core.deadline import Deadline
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import named, remedy_for
from coevolve.core.io import parse, write_json
from coevolve.core.plugins import place_of
from coevolve.core.task import DONE, Observation, Score, Task, ToolCall
from coevolve.core.trajectories import INTERRUPTED, Trajectory
from coevolve.core.untrusted import one_line
from coevolve.environments.border import crossed
from coevolve.environments.environment import Environment, Session, blameless, quarantined
from coevolve.environments.knowledge import Knowledge, learn
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import UNANSWERED, Limits, RolloutRequest, rollout

Calls = Sequence[Sequence[ToolCall]]  # the calls of each turn
MOST_CALLS = 64  # per turn
Severity = Literal["fail", "warn", "advisory"]
SEVERITIES: tuple[Severity, ...] = ("fail", "warn", "advisory")  # the worst first
COUNT = 25  # tasks to check in each split
SHOWN, EVIDENCE = 10, 300  # most pieces of evidence in a finding, and characters of each
FILE = "audit.json"
RAISED = (
    "repair what raises this; see `Environment` and `Session` in environments/environment.py for what each method does"
)


def name(task: Task) -> str:
    """The name of a task in evidence."""
    return f"{task.split} {task.task_id}"


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """The answers of an episode, including that of ``reset``, and its score.

    ``broken``: the error of a call, after which the score is 0, and ``where`` it was raised. ``flaws``: answers of the wrong type.
    """

    heard: list[Observation]
    reward: float
    checks: dict[str, bool]
    digest: str
    broken: str = ""
    flaws: Sequence[str] = ()
    where: str = ""

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
    """Checks use ``count`` tasks of each split, spread over it. ``place`` is the environment's name, or MODULE:CLASS.

    A call that takes longer than ``max_seconds`` never ends. ``raised`` maps the text of an exception to the first check that
    it ended. ``stopped``: no further check makes sense. ``unsteady`` are tasks that do not repeat: their scores say nothing.
    """

    environment: Environment
    count: int
    place: str
    max_seconds: float = 900.0
    raised: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    unsteady: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.deadline = Deadline(2 * self.max_seconds)  # `rollout` gives up first
        made = self.environment.open

        def opened() -> Session:
            self.deadline.restart()
            return made()

        self.environment = copy(self.environment)
        self.environment.open = opened  # type: ignore[method-assign]

    @cached_property
    def splits(self) -> dict[str, Sequence[Task]]:
        return {split: _tasks(self.environment, split) for split in ("seed", *self.environment.panels)}

    @cached_property
    def sample(self) -> dict[str, list[Task]]:
        """``count`` tasks of each split at equal distances, and up to as many that call further tools.

        Tasks that are known to be unsolvable are left out.
        """
        found = {}
        for split, tasks in self.splits.items():
            bad = quarantined(self.environment, tasks)
            good = [task for task in tasks if task.task_id not in bad]
            step = max(len(good) / self.count, 1.0)
            found[split] = [good[int(place * step)] for place in range(min(self.count, len(good)))]
            called = {tool for task in found[split] for tool in task.tools}
            for task in good:
                if len(found[split]) < 2 * self.count and not called.issuperset(task.tools):
                    found[split].append(task)
                    called.update(task.tools)
        return found

    @cached_property
    def episodes(self) -> list[tuple[Task, Trajectory]]:
        """The sample with an episode of each reference, as evaluation plays it."""
        tasks = [task for tasks in self.sample.values() for task in tasks]
        requests = [RolloutRequest(task, 0) for task in tasks]
        limits = Limits(100, 10**9, 10**9, self.max_seconds)
        played = rollout(ReferencePolicy(self.environment, parallel=True), self.environment, requests, limits)
        return [(task, episode.trajectory) for task, episode in zip(tasks, played, strict=True)]

    @cached_property
    def some(self) -> dict[str, list[Task]]:
        """The sample without tasks whose episode was interrupted: `contract.episodes` says why."""
        whole = {task.task_id for task, episode in self.episodes if episode.stop_reason not in INTERRUPTED}
        return {split: [task for task in tasks if task.task_id in whole] for split, tasks in self.sample.items()}

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

    def play(self, task: Task, calls: Calls, says: str = DONE) -> PlayedEpisode:
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
        except (Exception, SystemExit) as error:
            if not heard or blameless(error, self.environment, task):
                raise
            return PlayedEpisode(heard, 0.0, {}, "", named(error), flaws, place_of(error))


def _ended(session: Session, task: Task, calls: Calls, says: str, heard: list[Observation]) -> bool:
    """Make the calls of each turn. Returns whether the episode ended."""
    tools = heard[0].tools
    for turn in calls[: len(task.turns)] or [[]]:
        if any(_hear(heard, session.step, crossed(call, tools)).done for call in turn[:MOST_CALLS]):
            return True
        answer = _hear(heard, session.say, says)
        if answer.done:
            return True
        tools = tools if answer.tools is None else answer.tools
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


Run = Callable[[Subject], Iterator[str]]
CHECKS: dict[str, tuple[Severity, str, Run]] = {}  # name → severity, remedy, and the lines of evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check: the number of violations, and some of them."""

    check: str
    severity: Severity
    question: str
    number: int
    evidence: list[str]
    remedy: str


@dataclass(frozen=True, slots=True)
class Audit:
    environment: str
    fingerprint: str
    findings: list[Finding]


def check(key: str, severity: Severity, remedy: str) -> Callable[[Run], Run]:
    """Adds a function to CHECKS. Its docstring begins with the question that people read."""

    def add(run: Run) -> Run:
        CHECKS[key] = severity, remedy, run
        return run

    return add


def chosen(only: Sequence[str], names: Iterable[str]) -> list[str]:
    """The ``names`` that begin with an entry of ``only``; all without entries."""
    if unknown := [one for one in only if not any(key.startswith(one) for key in names)]:
        raise CoevolveError(f"--only: no check {', '.join(unknown)}; expected some of: {', '.join(names)}")
    return [key for key in names if not only or key.startswith(tuple(only))]


def finding(subject: Subject, key: str) -> Finding:
    """The outcome of the check ``key``, which runs in a thread of its own like the sessions of the loop.

    Every exception of the environment is a violation, and so is a call that never ends.
    """
    severity, remedy, run = CHECKS[key]
    found: list[str] = []

    def answer() -> None:
        _ = subject.some  # played before the check opens a session: there may be room for few
        found.extend(run(subject))

    thread = Threads(1, key).take()
    done = thread.submit(answer)
    subject.deadline.restart()
    while (tick := subject.deadline.tick()) and not wait([done], tick).done:
        pass
    thread.end()
    severity = severity if done.done() else "fail"  # whatever else the check would have found
    error = done.exception() if done.done() else TimeoutError(UNANSWERED.format(subject.max_seconds))
    first_of_all = key == next(iter(CHECKS))
    subject.stopped = not done.done() or (first_of_all and (error is not None or not any(subject.some.values())))
    if error is not None:
        remedy = remedy_for(named(error)) or RAISED
        subject.raised.setdefault(named(error), key)
        found.append(named(error) + place_of(error))
    known = [next((first for text, first in subject.raised.items() if text in line), key) for line in found]
    if found and key not in known:
        found, remedy = [f"the same exception as in {known[0]}"], ""
    shown = [one_line(line, EVIDENCE) for line in found[:SHOWN]]
    return Finding(key, severity, (run.__doc__ or "").splitlines()[0], len(found), shown, remedy)


def findings(subject: Subject, keys: Iterable[str]) -> Iterator[Finding]:
    """The outcomes of the checks ``keys``, up to one after which no other makes sense."""
    for key in keys:
        yield finding(subject, key)
        if subject.stopped:
            return


def place(environment: Environment) -> Path:
    """The file of the last audit of ``environment``."""
    return Path("scratch/audits") / environment.name / FILE


def write(environment: Environment, findings: Iterable[Finding], file: Path) -> None:
    write_json(file, asdict(Audit(environment.name, environment.fingerprint, list(findings))))

"""Play a list of requests in an environment. Another process can repeat an episode from its requests, because environments
answer the same requests in the same way. ``replay`` in environments/chains.py plays the reference of a task.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.refused_answers import refused
from coevolve.core.success import is_success
from coevolve.core.task import Observation, Score, Task, ToolCall, misfit
from coevolve.core.untrusted import one_line, writable
from coevolve.environments.border import crossed
from coevolve.environments.chains import replay
from coevolve.environments.environment import Environment, blameless
from coevolve.environments.registry import make
from coevolve.environments.wire import to_task

Request = list[Any]  # ["call", name, arguments], or ["say", text]
BROKEN = Observation("tool", "the episode is broken", error=True, done=True)


def call(name: str, arguments: dict[str, Any]) -> Request:
    return ["call", name, arguments]


def say(text: str) -> Request:
    return ["say", text]


class Replay:
    """An episode of ``task``, which gets one request after another, or a growing list of them, until the session ends it.

    A call that breaks its session ends the episode with score 0, unless ``blameless`` excuses the agent: then the error is
    raised.
    """

    def __init__(self, environment: Environment, task: Task) -> None:
        self._environment, self._task = environment, task
        self._session = environment.open()
        self._followed = 0
        self._broken = False
        self.turn = self._session.reset(task)
        self.tools = self.turn.tools or []

    def answer(self, request: Request) -> Observation:
        """The answer to one more request. One that no agent can make is refused, and the episode does not know of it."""
        if wrong := misfit(*request[-2:]):
            return Observation("tool", wrong, error=True)
        return self._take(request)

    def follow(self, requests: Sequence[Request]) -> Observation:
        """The answer to the last of ``requests``. Those of an earlier call are not repeated."""
        for request in requests[self._followed :]:
            self._followed += 1
            self._take(request)
        return self.turn

    def _take(self, request: Request) -> Observation:
        self.turn = self.turn if self.turn.done else self._played(request)
        self.tools = self.tools if self.turn.tools is None else self.turn.tools
        return self.turn

    def _played(self, request: Request) -> Observation:
        if self._broken:
            return BROKEN
        try:
            if request[0] == "say":
                return self._session.say(request[1])
            self._session.begin_reply()
            return self._session.step(crossed(ToolCall(request[1], request[2]), self.tools))
        except Exception as error:
            self._broken = True
            self.close()  # it may occupy the place of the session that ``blameless`` opens
            if blameless(error, self._environment, self._task):
                raise
            return BROKEN

    def score(self) -> Score:
        return Score(0.0) if self._broken else self._session.score()

    def close(self) -> None:
        with suppress(Exception):
            self._session.close()


def told(turn: Observation) -> str:
    """The text of an answer for other trainers. They do not log refusals, so ``refused`` must find them in the text."""
    text = writable(turn.content)
    return f"error: {text}" if turn.error and not refused(text) else text


def score(environment: Environment, task: Task, requests: Sequence[Request]) -> Score:
    """The score of an episode with these requests."""
    with closing(Replay(environment, task)) as episode:
        episode.follow(requests)
        return episode.score()


def last_answer(environment: Environment, task: Task, requests: Sequence[Request]) -> Observation:
    """The answer to the last of ``requests``, in an episode of their own."""
    with closing(Replay(environment, task)) as episode:
        return episode.follow(requests)


made = cache(make)


def of_row(row: Mapping[str, Any]) -> tuple[Environment, Task]:
    """The environment and the task of a row that `coevolve export tasks --for verl` or `rllm` wrote."""
    return made(row["environment"]), to_task(json.loads(row["task"]))


def refusal(environment: Environment, task: Task) -> str:
    """The reason why the reference of ``task`` does not succeed; empty if it does."""
    try:
        with closing(environment.open()) as session:
            replay(session, task, environment.reference(task), watch=False)
            result = session.score()
    except Exception as error:  # the world of a task in a file may be anything
        return one_line(f"it cannot be played ({type(error).__name__}: {error})")
    failed = [name for name, passed in result.checks.items() if not passed]
    checks = f" (failed: {', '.join(failed)})" if failed else ""
    return "" if is_success(result.reward) else one_line(f"its reference scores {result.reward:g}{checks}")


def shared_tools(environment: Environment, tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """The functions that any of the ``tasks`` offers at its start, for trainers that show one list of tools for all tasks."""
    tools: dict[str, dict[str, Any]] = {}
    with closing(environment.open()) as session:
        for task in tasks:
            for function in (schema["function"] for schema in session.reset(task).tools or []):
                if tools.setdefault(function["name"], function) != function:
                    raise CoevolveError(
                        f"{task.environment}: task {task.task_id} has another tool {function['name']} than earlier tasks, but "
                        "the trainer shows one list of tools for all tasks; write tasks with other tools to another file"
                    )
    return list(tools.values())


def checked_tasks(environment: Environment, name: str, path: Path) -> list[Task]:
    """The tasks of ``path``, if the environment ``name`` accepts all: each reference succeeds again."""
    tasks = read_tasks(path, name, least=1)
    refused = [(task, reason) for task in tasks if (reason := refusal(environment, task))]
    if refused:
        task, reason = refused[0]
        raise CoevolveError(
            f"{path}: {name} does not accept {len(refused)} of {len(tasks)} tasks; task {task.task_id}: {reason}; "
            "`coevolve verify` writes the tasks that it accepts"
        )
    return tasks

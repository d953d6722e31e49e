"""An environment from a plain Python class: its public methods are the tools, its attributes the state of the world.

Use it for a simulator in Python. A task succeeds if the state ends as the reference leaves it. If the reference changes nothing,
the agent must receive all answers that the reference receives. See docs/your-own-environment.md.
"""

import asyncio
import copy
import inspect
import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache, partial
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import state_hash
from coevolve.core.plugins import attempt
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import MACHINE, Environment, EnvironmentFailed, Session, check_owner
from coevolve.environments.questions import Question, World, asked, met
from coevolve.environments.signatures import MethodTool, method_tools
from coevolve.environments.world_state import answer, jsonable, state_of

__all__ = ["MethodEnvironment", "Question", "World"]


class MethodEnvironment(Environment):
    """An environment whose subclass sets ``name`` and ``simulator``, and implements ``questions``.

    ``simulator(**world)`` makes a world. An exception of a method refuses the call: the agent reads its type and message, or the
    message alone of a ValueError, and the world is as before the call. What ``simulator.state()`` returns is the state, or else
    the attributes.
    """

    simulator: Callable[..., Any]
    version = "1"
    panels: tuple[str, ...] = ("validation", "test")

    def __init__(self) -> None:
        self.fingerprint = f"{self.name}-{self.version}"
        self.tools()  # raises an error if an agent could not call one of them

    @abstractmethod
    def questions(self, split: str) -> Iterable[Question]:
        """The instruction, the world and the calls that solve it, for each task of a split. No two tasks may be equal."""

    def load_tasks(self, split: str) -> Sequence[Task]:
        questions = [
            (words, world, [ToolCall(call.name, jsonable(call.arguments)) for call in calls])
            for words, world, calls in self.questions(split)
        ]
        try:
            tasks = asked(self.name, split, questions)
        except (TypeError, ValueError) as error:
            raise CoevolveError(
                f"{self.name}: a world of {split} is no JSON ({error}); let the simulator make its objects from JSON"
            ) from None
        for task in tasks[:1]:
            with closing(self.open()) as session:
                attempt(partial(session.reset, task), f"{self.name}: the first task of {split} does not start")
        return tasks

    def tools(self) -> Sequence[dict[str, Any]]:
        return [tool.schema for tool in method_tools(type(self).simulator).values()]

    def open(self) -> "MethodSession":
        return MethodSession(self.name, type(self).simulator)


class MethodSession(Session):
    """An episode with an instance of the simulator."""

    def __init__(self, name: str, simulator: Callable[..., Any]) -> None:
        self._name = name
        self._simulator = simulator
        self._task: Task | None = None
        self._world: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None  # of the episode's coroutines
        self._accepted: list[ToolCall] = []
        self._heard: list[str] = []

    @property
    def _tools(self) -> Mapping[str, MethodTool]:
        return method_tools(self._simulator)

    def reset(self, task: Task) -> Observation:
        check_owner(task, self._name)
        self.close()
        self._begin(task, self._simulator(**copy.deepcopy(task.world)))
        tools = [tool.schema for tool in self._tools.values()]
        return Observation("user", task.turns[0] if task.turns else "", tools=tools)

    def _begin(self, task: Task, world: Any) -> None:
        self._world = world
        self._task, self._accepted, self._heard = task, [], []
        self.digest()  # raises an error if the state cannot be compared, before the agent is to blame for it

    def step(self, call: ToolCall) -> Observation:
        self._begun()
        if call.name not in self._tools:
            return Observation("tool", f"there is no tool {call.name[:60]!r}", error=True)
        try:
            content = self._answer(call)
        except (CoevolveError, EnvironmentFailed, MemoryError):
            raise
        except (Exception, asyncio.CancelledError) as error:  # of a validator, too
            if isinstance(error, OSError) and error.errno in MACHINE:
                raise
            self._repeat()
            return Observation("tool", _refusal(error), error=True)
        self._accepted.append(copy.deepcopy(call))
        self._heard.append(content)
        return Observation("tool", content)

    def _answer(self, call: ToolCall) -> str:
        arguments = self._tools[call.name].read(call.arguments)
        result = self._result(getattr(self._world, call.name), arguments)
        return answer(f"{type(self._world).__name__}.{call.name}", result)

    def _result(self, method: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        result = method(**arguments)
        return self._awaited(result) if inspect.isawaitable(result) else result

    def _awaited(self, result: Awaitable[Any]) -> Any:
        """What ``result`` gives in the loop of the episode: in another thread if this one runs a loop, as in a notebook."""
        self._loop = self._loop or asyncio.new_event_loop()
        run = partial(self._loop.run_until_complete, result)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run()
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run).result()

    def _repeat(self) -> None:
        """Make the world before a refused call: a new one after all accepted calls."""
        self._world = self._simulator(**copy.deepcopy(self._begun().world))
        for call in self._accepted:
            self._answer(call)

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def score(self) -> Score:
        task = self._begun()
        calls = [[call.name, call.arguments] for call in task.calls]
        start, end, outputs = _truth(type(self), self._simulator, json.dumps([task.world, calls]))
        checks = met(start, end, outputs, self.digest(), self._heard)
        return Score(float(all(checks.values())), checks)

    def digest(self) -> str:
        return state_hash(state_of(self._world)) if self._task else ""

    def _begun(self) -> Task:
        if self._task is None:
            raise CoevolveError("no task was started; call reset() first")
        return self._task

    def close(self) -> None:
        self._task = self._world = None
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _refusal(error: BaseException) -> str:
    """What an agent reads of a method's exception."""
    text = str(error)
    return text if type(error) is ValueError and text else f"{type(error).__name__}: {text}".removesuffix(": ")


@lru_cache(maxsize=4096)
def _truth(kind: type[MethodSession], simulator: Callable[..., Any], solution: str) -> tuple[str, str, list[str]]:
    """The state before and after the reference, and its answers. ``solution`` is JSON of a world and calls."""
    world, calls = json.loads(solution)
    with closing(kind("", simulator)) as session:
        session.reset(Task.create("", "", [], world, []))
        start = session.digest()
        turns = [session.step(ToolCall(name, arguments)) for name, arguments in calls]
        return start, session.digest(), [turn.content for turn in turns if not turn.error]

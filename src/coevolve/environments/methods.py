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
from coevolve.environments.signatures import method_tools
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
        tasks = asked(self.name, split, map(self._written, self.questions(split)))
        for task in tasks[:1]:
            attempt(partial(self._try, task), f"{self.name}: the first task of {split} does not start")
        return tasks

    def _try(self, task: Task) -> None:
        with closing(self.open()) as session:
            session.reset(task)

    def _written(self, question: Question) -> Question:
        """``question`` as a file of tasks holds it: the calls as an agent makes them."""
        words, world, calls = question
        try:
            json.dumps(world)
            return words, world, [ToolCall(call.name, jsonable(call.arguments)) for call in calls]
        except (TypeError, ValueError) as error:
            raise CoevolveError(
                f"{self.name}: the world or the calls of {words!r} are no JSON ({error}); let the simulator make its objects "
                "from JSON"
            ) from None

    def tools(self) -> Sequence[dict[str, Any]]:
        return [tool.schema for tool in method_tools(type(self).simulator).values()]

    def open(self) -> "MethodSession":
        return MethodSession(self.name, type(self).simulator)


class MethodSession(Session):
    """An episode with an instance of the simulator."""

    def __init__(self, name: str, simulator: Callable[..., Any]) -> None:
        self._name = name
        self._simulator = simulator
        self._tools = method_tools(simulator)
        self._task: Task | None = None
        self._world: Any = None
        self._loop: asyncio.Runner | None = None  # of the episode's coroutines
        self._accepted: list[ToolCall] = []
        self._heard: list[str] = []

    def reset(self, task: Task) -> Observation:
        check_owner(task, self._name)
        self.close()
        self._world = self._simulator(**copy.deepcopy(task.world))
        self._loop = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._task, self._accepted, self._heard = task, [], []
        self.digest()  # raises an error if the state cannot be compared, before the agent is to blame for it
        return Observation(
            "user", task.turns[0] if task.turns else "", tools=[tool.schema for tool in self._tools.values()]
        )

    def step(self, call: ToolCall) -> Observation:
        self._begun()
        if call.name not in self._tools:
            return Observation("tool", f"there is no tool {call.name[:60]!r}", error=True)
        try:
            arguments = self._tools[call.name].read(call.arguments)
        except Exception as error:  # of a validator, too
            return Observation("tool", _refusal(error), error=True)
        before = self._copied()
        try:
            content = self._answer(call.name, arguments)
        except (CoevolveError, EnvironmentFailed, MemoryError):
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, OSError) and error.errno in MACHINE:
                raise
            self._world = self._repeated() if before is None else before
            return Observation("tool", _refusal(error), error=True)
        self._accepted.append(copy.deepcopy(call))
        self._heard.append(content)
        return Observation("tool", content)

    def _answer(self, name: str, arguments: Mapping[str, Any]) -> str:
        result = getattr(self._world, name)(**arguments)
        if inspect.isawaitable(result):
            result = self._awaited(result)
        return answer(f"{type(self._world).__name__}.{name}", result)

    def _awaited(self, result: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await result

        assert self._loop is not None
        return _aside(partial(self._loop.run, wait()))

    def _copied(self) -> Any:
        """A copy of the world; None if it holds what cannot be copied, such as a connection."""
        try:
            return copy.deepcopy(self._world)
        except Exception:
            return None

    def _repeated(self) -> Any:
        """The world before a refused call: a new one after all accepted calls."""
        self._world = self._simulator(**copy.deepcopy(self._begun().world))
        for call in self._accepted:
            self._answer(call.name, self._tools[call.name].read(call.arguments))
        return self._world

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def score(self) -> Score:
        task = self._begun()
        calls = [[call.name, call.arguments] for call in task.calls]
        start, end, outputs = _truth(self._simulator, json.dumps([task.world, calls]))
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
            _aside(self._loop.close)
            self._loop = None


def _aside(action: Callable[[], Any]) -> Any:
    """The result of ``action``, which runs an event loop: in another thread if this one runs a loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return action()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(action).result()


def _refusal(error: BaseException) -> str:
    """What an agent reads of a method's exception."""
    kind, text = type(error).__name__, str(error)
    if type(error) is ValueError and text:
        return text
    return f"{kind}: {text}" if text else kind


@lru_cache(maxsize=4096)
def _truth(simulator: Callable[..., Any], solution: str) -> tuple[str, str, list[str]]:
    """The state before and after the reference, and its answers. ``solution`` is JSON of a world and calls."""
    world, calls = json.loads(solution)
    with closing(MethodSession("", simulator)) as session:
        session.reset(Task.create("", "", [], world, []))
        start = session.digest()
        turns = [session.step(ToolCall(name, arguments)) for name, arguments in calls]
        return start, session.digest(), [turn.content for turn in turns if not turn.error]

"""AgentDojo (arXiv 2406.13352) as an environment: mails, trips, a bank and a chat, judged by its own checkers. Runs in a worker.

It has only AgentDojo's user tasks. Injections have their harmless defaults, so no score here says how well an agent resists
them. An agent answers a user by the tool ``answer``, which this module adds, or by its last message, as in AgentDojo. A task that
the loop synthesizes has another goal (``goal: state`` in its world): world and answer must end as its reference leaves them.
"""

import datetime
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve_environments.episode import AdapterSession, tool

NAME = "agentdojo"
VERSION = 1  # of the rules that turn AgentDojo's tasks into tasks
BENCHMARK = "v1.2.2"
SPLITS = ("seed", "validation", "seed", "test")  # splits of a suite's tasks, in rotation
IDLE = "doing nothing succeeds: its checker finds what is there from the start"
QUARANTINE = {f"banking/user_task_{number}": IDLE for number in (5, 6, 8, 9, 10)}
TODAY = (2024, 5, 15)
LONGEST = 20_000  # characters of an answer
ANSWER = tool("answer", "Tell the user what was asked for, and end the task", text="The answer")


class AgentDojo(Environment):
    """Four suites. A task offers the tools of its suite."""

    name = NAME
    license = "MIT"
    panels = ("validation", "test")
    quarantine = MappingProxyType(QUARANTINE)

    def __init__(self) -> None:
        recipe = content_hash([VERSION, BENCHMARK, SPLITS, QUARANTINE])
        self.fingerprint = f"{NAME}-{version('agentdojo')}-{BENCHMARK}-{recipe[:12]}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [task for task in _tasks() if task.split == split]

    def tools(self) -> Sequence[dict[str, Any]]:
        by_name = {one["function"]["name"]: one for suite in suites() for one in _schemas(suite)}
        return list(by_name.values())

    def open(self) -> "AgentDojoSession":
        return AgentDojoSession()

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """The suite's only world, without the task's checker."""
        return {**task.world, "goal": "state"}


class AgentDojoSession(AdapterSession):
    """An episode with a user's task."""

    environment = NAME

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self.world = AgentDojoEpisode(task.world)
        return _schemas(task.world["suite"])

    def act(self, call: ToolCall) -> Observation:
        return self.world.make(call)

    def say(self, text: str) -> Observation:
        if self.task is not None and not self.over and _answered(self.task):
            self.world.answer = text[:LONGEST]
        return super().say(text)

    def judge(self, task: Task) -> Score:
        if task.world.get("goal") == "state":
            reached = self.world.state() == _end(task) != _start(task)
            return Score(float(reached), {"state": reached})  # a reference that changes nothing asks for nothing
        solved = self.world.solved()
        return Score(float(solved), {"utility": solved})

    def digest(self) -> str:
        return "" if self.task is None else self.world.state()


class AgentDojoEpisode:
    """The calls made in a world, and its current state. A refused call changes nothing."""

    def __init__(self, world: Mapping[str, Any]) -> None:
        self._suite = suites()[world["suite"]]
        self._task = self._suite.user_tasks[world["task"]]
        self._before = self._task.init_environment(_opened(world["suite"]).model_copy(deep=True))
        self._now = self._before.model_copy(deep=True)
        self._calls: list[ToolCall] = []
        self.answer: str | None = None

    def make(self, call: ToolCall) -> Observation:
        self._calls.append(call)
        if call.name == "answer":
            text = call.arguments.get("text")
            if set(call.arguments) != {"text"} or not isinstance(text, str):
                return Observation("tool", "expected answer(text)", error=True)
            self.answer = text[:LONGEST]
            return Observation("tool", "ok", done=True)
        said, error = self._run(call)
        return Observation("tool", said, error=error)

    def _run(self, call: ToolCall) -> tuple[str, bool]:
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
        from agentdojo.functions_runtime import FunctionsRuntime

        runtime = FunctionsRuntime(self._suite.tools)
        if call.name not in runtime.functions:
            return f"there is no tool {call.name[:80]}", True
        known = runtime.functions[call.name].parameters.model_fields
        if unknown := sorted(set(call.arguments) - set(known)):
            return f"{call.name} has no argument {', '.join(unknown)[:80]}", True
        after = self._now.model_copy(deep=True)
        result, error = runtime.run_function(after, call.name, call.arguments)
        if error is not None:
            return error[:LONGEST], True
        self._now = after
        return tool_result_to_str(result), False

    def solved(self) -> bool:
        """The result of AgentDojo's checker for the task, which looks at the calls, or at the answer and the world."""
        from agentdojo.functions_runtime import FunctionCall

        calls = [FunctionCall(function=call.name, args=call.arguments) for call in self._calls]
        ends = self.answer or "", self._before.model_copy(deep=True), self._now.model_copy(deep=True)
        try:
            said = self._task.utility_from_traces(*ends, calls)
            return bool(self._task.utility(*ends) if said is None else said)
        except (LookupError, AttributeError, TypeError, ValueError):
            return False  # the checker raised an error because an object is missing

    def state(self) -> str:
        return content_hash([self._now.model_dump(mode="json"), self.answer])


def _answered(task: Task) -> bool:
    """Whether the last message is an answer: not in a task whose reference gives none."""
    return task.world.get("goal") != "state" or "answer" in task.tools


@lru_cache(maxsize=256)
def _start(task: Task) -> str:
    """The world before any call, as a hash."""
    return AgentDojoEpisode(task.world).state()


@lru_cache(maxsize=256)
def _end(task: Task) -> str:
    """The world after the reference, as a hash."""
    episode = AgentDojoEpisode(task.world)
    for call in task.calls:
        if episode.answer is None:
            episode.make(call)
    return episode.state()


@cache
def suites() -> Mapping[str, Any]:
    """AgentDojo's suites by name, without its package for agents, which imports every provider's client."""
    spec = find_spec("agentdojo")
    assert spec and spec.origin
    package = ModuleType("agentdojo.agent_pipeline")
    package.__path__ = [str(Path(spec.origin).parent / "agent_pipeline")]
    clients = ModuleType(f"{package.__name__}.llms")
    clients.__path__ = []
    google = ModuleType(f"{clients.__name__}.google_llm")
    google.EMPTY_FUNCTION_NAME = "<empty-function-name>"  # type: ignore[attr-defined]
    for module in (package, clients, google):
        sys.modules.setdefault(module.__name__, module)
    from agentdojo.task_suite.load_suites import get_suites

    tools = "agentdojo.default_suites.v1.tools"
    for one in ("cloud_drive_client", "email_client"):  # they read the machine's clock for the time of a change
        import_module(f"{tools}.{one}").datetime = _clock()  # type: ignore[attr-defined]
    # it makes a list from a set, whose order differs between processes
    import_module(f"{tools}.calendar_client").set = dict.fromkeys  # type: ignore[attr-defined]
    return dict(get_suites(BENCHMARK))


def _clock() -> ModuleType:
    """The module ``datetime`` with another clock: it is always noon of the day that the calendars call today."""

    class Noon(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime(*TODAY, 12, tzinfo=tz)

    module = ModuleType("datetime")
    vars(module).update({**vars(datetime), "datetime": Noon})
    return module


@cache
def _opened(suite: str) -> Any:
    """The initial world of a suite, read once. Callers must not change it."""
    return suites()[suite].load_and_inject_default_environment({})


@cache
def _schemas(suite: str) -> list[dict[str, Any]]:
    return [*map(_schema, suites()[suite].tools), ANSWER]


def _schema(tool: Any) -> dict[str, Any]:
    parameters = tool.parameters.model_json_schema()
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": {"required": [], **{key: value for key, value in parameters.items() if key != "title"}},
        },
    }


@cache
def _tasks() -> tuple[Task, ...]:
    return tuple(_generated())


def _generated() -> Iterator[Task]:
    for suite, one in suites().items():
        names = [name for name in one.user_tasks if f"{suite}/{name}" not in QUARANTINE]
        for number, name in enumerate(names):
            task = one.user_tasks[name]
            before = task.init_environment(_opened(suite).model_copy(deep=True))
            calls = [ToolCall(call.function, dict(call.args)) for call in task.ground_truth(before)]
            if task.GROUND_TRUTH_OUTPUT:
                calls.append(ToolCall("answer", {"text": task.GROUND_TRUTH_OUTPUT}))
            world = {"suite": suite, "task": name, "id": f"{suite}/{name}"}
            tags = [suite, task.DIFFICULTY.name.lower()]
            yield Task.create(NAME, SPLITS[number % len(SPLITS)], [task.PROMPT], world, [calls], tags)


HOSTED = Hosted(NAME, f"{__name__}:AgentDojo", Path(__file__).parents[1] / "requirements/agentdojo.txt", each=64)

"""The tools of an MCP server as an environment. A subclass gives the server's command, the start of a world, and its state.

Each episode has its own folder and its own server in it, which the official client calls (extra ``mcp``). A task succeeds if the
world ends as its reference leaves it. If the reference changes nothing, the agent must receive all answers that the reference
receives. A subclass can use another checker. See docs/your-own-environment.md.
"""

import atexit
import copy
import json
import os
import sys
import tempfile
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.deadline import within
from coevolve.core.errors import CoevolveError, install
from coevolve.core.hashing import content_hash, state_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.core.untrusted import one_line
from coevolve.environments.environment import Environment, EnvironmentFailed, Session, check_owner
from coevolve.environments.questions import Question, World, asked, met
from coevolve.environments.tool_list import PAGES, ToolList
from coevolve.environments.tool_schema import tool_schema

FOLDER = "."  # replaces the name of an episode's folder in answers, because the name differs in every episode
LONGEST = 100_000  # most characters of an observation
STARTING = 120.0  # seconds of running time in which a server starts: it imports its packages, whatever a call may take
KEPT = 4096  # most results of references in the cache


class McpEnvironment(Environment):
    """An environment whose subclass sets ``name`` and ``command``, and implements ``questions``, ``begin`` and ``state``.

    ``command`` starts the server in the episode's folder. In ``command`` and ``variables``, ``{folder}`` stands for that folder
    and ``{python}`` for this interpreter. A call that takes more than ``seconds`` of running time ends its episode, which scores 0.
    """

    command: Sequence[str]
    variables: Mapping[str, str] = {}  # environment variables of the server, besides HOME, PATH and similar ones
    seconds: float = 30.0
    version: str = "1"  # of questions, worlds and checker
    panels: tuple[str, ...] = ("validation", "test")
    capacity: int | None = 16  # each session needs a process

    def __init__(self) -> None:
        if find_spec("mcp") is None:
            raise CoevolveError(f"{self.name} needs the official MCP client; run `{install('mcp')}`")
        try:
            with closing(McpServer(self, {})) as server:
                self._tools = server.tools
        except EnvironmentFailed as error:
            raise CoevolveError(str(error)) from None
        self._ends: dict[str, tuple[str, str, list[str]]] = {}
        self.fingerprint = f"{self.name}-{self.version}-{content_hash(self._tools)}"

    @abstractmethod
    def questions(self, split: str) -> Iterable[Question]:
        """The instruction, the world and the calls that solve it, for each task of a split. No two tasks may be equal."""

    @abstractmethod
    def begin(self, folder: Path, world: World) -> None:
        """Write the server's initial files into the empty ``folder``. For an empty world, the server only lists its tools."""

    @abstractmethod
    def state(self, server: "McpServer") -> Any:
        """The state to compare, as JSON, from ``server.folder`` or from calls that change nothing. It must not depend on time or chance."""

    def check(self, task: Task, server: "McpServer", heard: Sequence[str], said: str) -> Mapping[str, bool]:
        """The conditions of success by name. ``heard`` holds the answers to calls, ``said`` the last message.

        By default the world must end as the reference leaves it.
        """
        start, end, answers = self.ends(task)
        if len(answers) < len(task.calls):
            return {"the server takes the reference": False}
        return met(start, end, answers, state_hash(self.state(server)), heard)

    def ends(self, task: Task) -> tuple[str, str, list[str]]:
        """Hashes of the state before and after the reference of ``task``, and the answers that it receives."""
        key = json.dumps([task.world, [[call.name, call.arguments] for call in task.calls]])
        if key not in self._ends:
            with closing(McpServer(self, copy.deepcopy(task.world))) as server:
                start = state_hash(self.state(server))
                answers = [server.call(call.name, call.arguments) for call in task.calls]
                if len(self._ends) >= KEPT:
                    self._ends.clear()
                heard = [said for said, refused in answers if not refused]
                self._ends[key] = start, state_hash(self.state(server)), heard
        return self._ends[key]

    def load_tasks(self, split: str) -> Sequence[Task]:
        return asked(self.name, split, self.questions(split))

    def tools(self) -> Sequence[dict[str, Any]]:
        return self._tools

    def open(self) -> "McpSession":
        return McpSession(self)


class McpSession(Session):
    """An episode with its own server."""

    def __init__(self, environment: McpEnvironment) -> None:
        self._environment = environment
        self._server: McpServer | None = None
        self._task: Task | None = None
        self._heard: list[str] = []
        self._said = ""

    def reset(self, task: Task) -> Observation:
        check_owner(task, self._environment.name)
        self.close()
        self._server = McpServer(self._environment, copy.deepcopy(task.world))
        self._task, self._heard, self._said = task, [], ""
        if self._server.tools != self._environment.tools():
            raise EnvironmentFailed(
                f"{self._environment.name}: the MCP server has other tools than when it was first asked; make its tools the same "
                "in every episode, or run `dvc repro -f tasks`"
            )
        return Observation("user", task.turns[0] if task.turns else "", tools=list(self._environment.tools()))

    def step(self, call: ToolCall) -> Observation:
        server = self._begun()
        if wrong := _wrong(self._environment.tools(), call):
            return Observation("tool", wrong, error=True)
        said, error = server.call(call.name, call.arguments)
        if not error:
            self._heard.append(said)
        return Observation("tool", said, error=error)

    def say(self, text: str) -> Observation:
        self._said = text
        return Observation("user", "", done=True)

    def score(self) -> Score:
        server = self._begun()
        assert self._task is not None
        checks = dict(self._environment.check(self._task, server, self._heard, self._said))
        return Score(float(bool(checks) and all(checks.values())), checks)

    def digest(self) -> str:
        return state_hash(self._environment.state(self._begun()))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = self._task = None

    def _begun(self) -> "McpServer":
        if self._server is None:
            raise CoevolveError("no task was started; call reset() first")
        return self._server


class McpServer:
    """A running server in its ``folder``, with the ``tools`` that it lists, as OpenAI function schemas."""

    def __init__(self, environment: McpEnvironment, world: World) -> None:
        self._name, self._seconds = environment.name, environment.seconds
        self._stack = ExitStack()
        try:
            outside = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="coevolve-mcp-"))).resolve()
            self.folder = outside / "world"
            self.folder.mkdir()
            environment.begin(self.folder, world)
            self._client = self._started(environment, outside / "stderr")
            self.tools = self.listed()
        except BaseException:
            self.close()
            raise

    def _started(self, environment: McpEnvironment, log: Path) -> Any:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        program, *arguments = map(self._filled, environment.command)
        variables = {name: self._filled(value) for name, value in environment.variables.items()}
        errors = self._stack.enter_context(log.open("w+", encoding="utf-8", errors="replace"))
        parameters = StdioServerParameters(command=program, args=arguments, env=variables, cwd=self.folder)
        client = Client(stdio_client(parameters, errlog=errors), cache=None)
        try:
            return self._stack.enter_context(_portal(os.getpid()).wrap_async_context_manager(self._connected(client)))
        except Exception as error:
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            why = next((line for line in reversed(lines) if line.strip()), "") or str(_first(error))
            raise EnvironmentFailed(f"{self._name}: the MCP server {program} does not start: {why[:300]}") from None

    @asynccontextmanager
    async def _connected(self, client: Any) -> AsyncIterator[Any]:
        async with within(STARTING) as connected, client:
            connected()
            yield client

    def _filled(self, text: str) -> str:
        return text.replace("{folder}", str(self.folder)).replace("{python}", sys.executable)

    def listed(self) -> list[dict[str, Any]]:
        """The tools that the server lists now. An endless or unreadable list raises EnvironmentFailed."""
        try:
            tools: list[dict[str, Any]] = _portal(os.getpid()).call(self._pages)
        except Exception as error:
            late = f"the list has no end within {self._seconds:g} s" if isinstance(error, TimeoutError) else ""
            reason = late or one_line(str(_first(error))) or type(error).__name__
            raise EnvironmentFailed(f"{self._name}: the MCP server's tools cannot be read: {reason}") from None
        return sorted(tools, key=lambda tool: str(tool["function"]["name"]))

    async def _pages(self) -> list[dict[str, Any]]:
        """The tools of all pages, which share one deadline."""
        tools, cursor = ToolList(), None
        async with within(self._seconds):
            for _ in range(PAGES):
                page = await self._client.list_tools(cursor=cursor)
                for tool in page.tools:
                    parameters = {"properties": {}, "required": [], **tool.input_schema}
                    tools.add(tool.name, tool.description or tool.name, parameters)
                cursor = page.next_cursor
                if cursor is None:
                    return tools.schemas
        raise ValueError(f"the list has more than {PAGES} pages")

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """The tool's answer, and whether it refuses the call. Raises an error if the server ends or does not answer in time."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        async def answer() -> Any:
            async with within(self._seconds):
                return await self._client.call_tool(name, dict(arguments))

        try:
            found = _portal(os.getpid()).call(answer)
        except TimeoutError:
            raise RuntimeError(f"{self._name}: {name} was not answered within {self._seconds:g} s") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise RuntimeError(f"{self._name}: {name} was not answered: {error}") from None
            return str(error)[:LONGEST], True
        parts = [getattr(one, "text", None) or f"[{one.type}]" for one in found.content]
        return "\n".join(parts).replace(str(self.folder), FOLDER)[:LONGEST], bool(found.is_error)

    def close(self) -> None:
        self._stack.close()


def _first(error: BaseException) -> BaseException:
    """The first exception in nested groups of exceptions."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _wrong(tools: Sequence[dict[str, Any]], call: ToolCall) -> str:
    """The error in the names of a call; empty if there is none. The server judges the values."""
    function = next((one["function"] for one in tools if one["function"]["name"] == call.name), None)
    if function is None:
        return f"there is no tool {call.name[:60]!r}"
    flat = tool_schema(function).flat()
    if not flat.get("additionalProperties") and (unknown := sorted(set(call.arguments) - set(flat["properties"]))):
        return f"{call.name}: there is no argument {unknown[0][:60]!r}"
    return ""


@cache
def _portal(process: int) -> Any:
    """The event loop of a process, in its own thread, which runs the clients of all sessions."""
    from anyio.from_thread import start_blocking_portal

    opened = start_blocking_portal()

    def end() -> None:
        with suppress(BaseException):  # at exit, end servers that were not closed instead of waiting for them
            opened.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    atexit.register(end)
    return opened.__enter__()

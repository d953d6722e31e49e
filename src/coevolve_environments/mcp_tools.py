"""The tools of an MCP server as an environment. A subclass gives the server's command, the start of a world, and its state.

Each episode has its own folder and its own server in it, which the official client calls (extra ``mcp``). A task succeeds if the
world ends as its reference leaves it. If the reference changes nothing, the agent must receive all answers that the reference
receives. A subclass can use another checker. See docs/your-own-environment.md.
"""

import atexit
import copy
import json
import logging
import os
import re
import sys
import tempfile
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.deadline import Deadline, within
from coevolve.core.errors import CoevolveError, install
from coevolve.core.hashing import content_hash, state_hash
from coevolve.core.task import Observation, Score, Task, ToolCall, misfit
from coevolve.core.untrusted import one_line
from coevolve.environments.environment import Environment, EnvironmentFailed, Session, check_owner
from coevolve.environments.questions import Question, World, asked, met
from coevolve.environments.tool_schema import tool_schema
from coevolve_environments.tool_list import PAGES, ToolList, answer, cut, unknown

FOLDER = "."  # replaces the name of an episode's folder in answers, because the name differs in every episode
STARTING = 120.0  # seconds of running time in which a server starts: it imports its packages, whatever a call may take
RENEWALS = 10  # times ``seconds`` that a call may take in all if it reports progress
KEPT = 4096  # most results of references in the cache
LOGGED = 100_000  # most characters of a server's log that are searched for an error
LINES = 3  # last lines of a log that names no error
# a line that names an error: not a line of code in a traceback, and not one of a warning
ERROR = re.compile(r"(?!\s)(?:(?!\b(?:info|debug|warn\w*)\b).)*?(?:error|exception|fatal|panic\w*)\b", re.IGNORECASE)


class McpEnvironment(Environment):
    """An environment whose subclass sets ``name`` and ``command``, and implements ``questions``, ``begin`` and ``state``.

    ``command`` starts the server in the episode's folder. In ``command`` and ``variables``, ``{folder}`` stands for that folder
    and ``{python}`` for this interpreter. A call that takes more than ``seconds`` of running time ends its episode, which scores 0.
    Each progress that the server reports renews this limit, up to ten times ``seconds`` in all. A tool whose schema lists no
    properties takes any argument. The server's requests for samples, roots or words of the user are refused.
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
        self._noted: set[str] = set()
        splits = ("seed", *self.panels)
        world = next((world for split in splits for _, world, _ in self.questions(split)), {})
        try:
            with closing(McpServer(self, copy.deepcopy(world))) as server:
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
        """Write the server's initial files into the empty ``folder``. ``world`` is the world of a task."""

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

    def note(self, about: str, words: str) -> None:
        """Print the first line about a habit of the server."""
        if about not in self._noted:
            self._noted.add(about)
            print(f"{self.name}: {words}", file=sys.stderr)

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
        if wrong := misfit(call.name, call.arguments) or _wrong(self._environment.tools(), call):
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
        self._environment, self._name, self._seconds = environment, environment.name, environment.seconds
        self._stack = ExitStack()
        self._deadline, self._progress = Deadline(self._seconds), False
        try:
            outside = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="coevolve-mcp-"))).resolve()
            self.folder, self._log = outside / "world", outside / "stderr"
            self.folder.mkdir()
            environment.begin(self.folder, world)
            self._client = self._started(environment)
            self.tools = self.listed()
        except BaseException:
            self.close()
            raise

    def _started(self, environment: McpEnvironment) -> Any:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import get_default_environment, stdio_client

        program, *arguments = map(self._filled, environment.command)
        variables = {name: self._filled(value) for name, value in environment.variables.items()}
        errors = self._stack.enter_context(self._log.open("w+", encoding="utf-8", errors="replace"))
        parameters = StdioServerParameters(command=program, args=arguments, env=variables, cwd=self.folder)
        client = Client(stdio_client(parameters, errlog=errors), cache=None, message_handler=self._overheard)
        try:
            return self._stack.enter_context(_portal(os.getpid()).wrap_async_context_manager(self._connected(client)))
        except Exception as error:
            why, words = one_line(str(_first(error))), self._complaint()
            if words:
                given = ", ".join(get_default_environment())
                why = f"{words}; of your environment variables it gets only {given}: add others to `variables`"
            raise EnvironmentFailed(f"{self._name}: the MCP server {program} does not start: {why}") from None

    @asynccontextmanager
    async def _connected(self, client: Any) -> AsyncIterator[Any]:
        async with within(Deadline(STARTING)) as connected, client:
            connected()
            check = client.session.validate_tool_result

            async def checked(name: str, result: Any) -> None:
                try:
                    await check(name, result)
                except RuntimeError as error:
                    words = f"the answer of {name} breaks its own output schema and counts as it came"
                    self._environment.note(f"schema {name}", f"{words} ({one_line(str(error))})")

            client.session.validate_tool_result = checked
            yield client

    async def _progressed(self, *_: Any) -> None:
        self._deadline.restart()
        self._progress = True

    async def _overheard(self, message: Any) -> None:
        """Hear progress, also of another request's number, and note a line on stdout that is no message of the protocol."""
        if getattr(message, "method", "") == "notifications/progress":
            await self._progressed()
        if isinstance(message, Exception):
            lines = [line["input"] for line in getattr(message, "errors", list)()]
            words = f"{str(lines[0])[:100]!r}" if lines else one_line(str(message))
            self._environment.note("stdout", f"the server prints to stdout, where only JSON-RPC may be: {words}")

    def _ending(self, error: BaseException, start: int = 0) -> str:
        """The ``error``, with the server's words from the byte ``start`` of its log on if it has ended."""
        from mcp_types import CONNECTION_CLOSED

        words = self._complaint(start) if getattr(error, "code", None) == CONNECTION_CLOSED else ""
        return one_line(f"{error}{f' ({words})' if words else ''}", 400)

    def _complaint(self, start: int = 0) -> str:
        """What the server's log says from the byte ``start`` on: from the first line that names an error, or else the last lines."""
        with self._log.open("rb") as log:
            log.seek(start)
            text = log.read(LOGGED).decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
        last = max(len(lines) - LINES, 0)
        first = next((place for place, line in enumerate(lines) if ERROR.match(line)), last)
        return one_line(self._shown(" ".join(lines[first:])), 300)

    def _filled(self, text: str) -> str:
        return text.replace("{folder}", str(self.folder)).replace("{python}", sys.executable)

    def listed(self) -> list[dict[str, Any]]:
        """The tools that the server lists now. An endless or unreadable list raises EnvironmentFailed."""
        try:
            tools: list[dict[str, Any]] = _portal(os.getpid()).call(self._pages)
        except Exception as error:
            late = f"the list has no end within {self._seconds:g} s" if isinstance(error, TimeoutError) else ""
            reason = late or self._ending(_first(error)) or type(error).__name__
            raise EnvironmentFailed(f"{self._name}: the MCP server's tools cannot be read: {reason}") from None
        return sorted(tools, key=lambda tool: str(tool["function"]["name"]))

    async def _pages(self) -> list[dict[str, Any]]:
        """The tools of all pages, which share one deadline."""
        tools, cursor = ToolList(), None
        async with within(Deadline(self._seconds)):
            for _ in range(PAGES):
                page = await self._client.list_tools(cursor=cursor)
                for tool in page.tools:
                    tools.add(tool.name, tool.description or tool.name, {"required": [], **tool.input_schema})
                cursor = page.next_cursor
                if not cursor:  # some servers end with an empty text
                    return tools.schemas
        raise ValueError(f"the list has more than {PAGES} pages")

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """The tool's answer, and whether it refuses the call. Raises an error if the server ends or does not answer in time."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        logged = self._log.stat().st_size
        self._deadline, self._progress = Deadline(self._seconds), False

        async def answered() -> Any:
            async with within(Deadline(RENEWALS * self._seconds)), within(self._deadline):
                return await self._client.call_tool(name, dict(arguments), progress_callback=self._progressed)

        try:
            found = _portal(os.getpid()).call(answered)
        except TimeoutError:
            most = f" after its last progress, or {RENEWALS} times that in all" if self._progress else ""
            raise RuntimeError(f"{self._name}: {name} was not answered within {self._seconds:g} s{most}") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise RuntimeError(f"{self._name}: {name} was not answered: {self._ending(error, logged)}") from None
            return cut(self._shown(answer([{"text": str(error)}], error.data))), True
        except ValueError as error:
            raise RuntimeError(
                f"{self._name}: the answer of {name} is none of the protocol: {one_line(str(error))}"
            ) from None
        parts = [part.model_dump(mode="json", by_alias=True) for part in found.content]
        return cut(self._shown(answer(parts, found.structured_content))), bool(found.is_error)

    def _shown(self, text: str) -> str:
        return text.replace(str(self.folder), FOLDER)

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
    wrong = unknown(call.arguments, tool_schema(function).flat())
    return f"{call.name}: there is no argument {wrong[0][:60]!r}" if wrong else ""


@cache
def _portal(process: int) -> Any:
    """The event loop of a process, in its own thread, which runs the clients of all sessions."""
    from anyio.from_thread import start_blocking_portal

    # the client logs each line that it cannot read with a traceback, which Python prints unless there is a handler
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    opened = start_blocking_portal()

    def end() -> None:
        with suppress(BaseException):  # at exit, end servers that were not closed instead of waiting for them
            opened.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    atexit.register(end)
    return opened.__enter__()

"""Environments over MCP: the example, on MCP's reference server for git, and servers that misbehave."""

import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.core.trajectories import StopReason
from coevolve.environments.environment import FailureReason
from coevolve.environments.methods import Question
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve_environments.mcp_tools import McpEnvironment, McpServer
from tests import ROOT
from tests.contract import violations
from tests.waiting import PATIENCE

LIMITS = Limits(8, 10**6, 64, PATIENCE)
SERVER = """
import os, sys, time
from mcp.server.mcpserver import MCPServer

made = MCPServer("odd")

@made.tool()
def note(text: str) -> str:
    with open("notes", "a") as file:
        file.write(text)
    return f"noted in {os.getcwd()}"

@made.tool()
def refuse() -> str:
    raise ValueError("not today")

@made.tool()
def end() -> str:
    os._exit(3)

@made.tool()
def wait() -> str:
    time.sleep(600)

if os.path.exists("odd"):
    made.add_tool(note, name="odd")
made.run()
"""


class Odd(McpEnvironment):
    """A server with many faults, each behind a tool."""

    name = "odd"
    command = ("{python}", "-c", SERVER)
    seconds = PATIENCE

    def questions(self, split: str) -> Iterable[Question]:
        yield f"note {split}", {"split": split}, [ToolCall("note", {"text": split})]
        yield f"answer {split}", {"split": split}, []

    def begin(self, folder: Path, world: dict[str, Any]) -> None:
        assert world["split"], "the world is never an empty one"
        for name in world.get("files", ()):
            (folder / name).touch()

    def state(self, server: McpServer) -> Any:
        notes = server.folder / "notes"
        return notes.read_text() if notes.exists() else ""

    def check(self, task: Task, server: McpServer, heard: Any, said: str) -> dict[str, bool]:
        return {"said": said == "42"} if not task.calls else dict(super().check(task, server, heard, said))


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mcp_git", ROOT / "examples/mcp_git/mcp_git.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mcp_git"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def odd() -> McpEnvironment:
    return Odd()


def test_git_server_keeps_the_contract() -> None:
    assert violations(example().Git(), 1) == {}


def test_folder_has_the_same_name_in_every_episode(odd: McpEnvironment) -> None:
    session = odd.open()
    task = odd.tasks("seed")[0]
    session.reset(task)
    turn = session.step(task.calls[0])
    assert (turn.content, turn.error) == ("noted in .", False)
    assert session.score().reward == 1.0
    session.close()


def test_an_own_checker_hears_the_last_message(odd: McpEnvironment) -> None:
    session = odd.open()
    session.reset(odd.tasks("seed")[1])
    assert session.score().reward == 0.0
    assert session.say("42").done
    assert session.score().checks == {"said": True}
    session.close()


def test_a_refused_call_is_an_error_turn(odd: McpEnvironment) -> None:
    session = odd.open()
    session.reset(odd.tasks("seed")[0])
    before = session.digest()
    for call, said in (
        (ToolCall("refuse"), "refuse"),
        (ToolCall("note", {"text": 3}), "text"),
        (ToolCall("note"), "text"),
        (ToolCall("nothing"), "there is no tool 'nothing'"),
        (ToolCall("note", {"text": "a", "loud": True}), "there is no argument 'loud'"),
    ):
        turn = session.step(call)
        assert turn.error and said in turn.content, turn
    assert session.digest() == before
    session.close()


class Script(ReferencePolicy):
    """Calls one tool for any request."""

    def __init__(self, environment: McpEnvironment, call: ToolCall) -> None:
        super().__init__(environment)
        self._call = call

    def planned(self, conversation: Any) -> list[list[ToolCall]]:
        return [[self._call]]


@pytest.mark.parametrize(("tool", "reason"), [("end", "end was not answered"), ("wait", "wait was not answered")])
def test_call_that_breaks_its_session_is_the_agents_failure(tool: str, reason: str) -> None:
    odd = Odd()
    odd.seconds = 5.0 if tool == "wait" else PATIENCE
    task = odd.tasks("seed")[0]
    policy = Script(odd, ToolCall(tool))
    (lost,) = rollout(policy, odd, [RolloutRequest(task, 0)], LIMITS)
    assert lost.trajectory.stop_reason is StopReason.BROKEN and not is_success(lost.trajectory.score)
    assert reason in lost.trajectory.messages[-1]["content"]
    odd.seconds = PATIENCE
    (again,) = rollout(ReferencePolicy(odd), odd, [RolloutRequest(task, 0)], replace(LIMITS, max_turns=3))
    assert is_success(again.trajectory.score)


def test_a_server_may_start_slower_than_a_call() -> None:
    class Slow(Odd):
        command = ("{python}", "-c", "import time; time.sleep(6)" + SERVER)
        seconds = 5.0

    assert Slow().tools()


def test_other_tools_in_another_world_are_a_failure_of_the_environment(odd: McpEnvironment) -> None:
    task = Task.create(
        "odd", "seed", ["note it"], {"split": "seed", "files": ["odd"]}, [[ToolCall("note", {"text": "it"})]]
    )
    (one,) = rollout(ReferencePolicy(odd), odd, [RolloutRequest(task, 0)], LIMITS)
    assert one.trajectory.stop_reason is StopReason.ENVIRONMENT_FAILED and not one.trajectory.counts
    assert one.trajectory.failure == FailureReason.START


LISTS = """
import json, sys

def tools(kind, cursor):
    empty = {"type": "object", "properties": {}}
    tool = {"name": "look", "inputSchema": empty}
    number = int(cursor or 0)
    return {
        "endless": {"tools": [{**tool, "name": f"t{number}"}], "nextCursor": str(number + 1)},
        "long": {"tools": [{**tool, "description": "x" * 2_000_001}]},
        "text": {"tools": [{"name": "look", "inputSchema": "text"}]},
        "raw": {"tools": [{**tool, "name": "\\x1b]0;pwn\\x07"}]},
        "silent": None,
    }[kind]

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"protocolVersion": (asked.get("params") or {}).get("protocolVersion", "2025-06-18"),
              "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
    if asked["method"] == "tools/list":
        result = tools(sys.argv[1], (asked.get("params") or {}).get("cursor"))
    if result is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("endless", "the list has more than 100 pages"),
        ("long", "the tools are longer than 2000000 characters"),
        ("text", "inputSchema"),
        ("raw", "expected a name, a description and a JSON schema"),
        ("silent", ""),
    ],
)
def test_an_endless_or_invalid_list_of_tools_is_a_one_line_error(kind: str, said: str) -> None:
    class Lists(Odd):
        command = ("{python}", "-c", LISTS, kind)
        seconds = 3.0 if kind == "silent" else PATIENCE

    with pytest.raises(CoevolveError, match=r"odd: the MCP server's tools cannot be read: .+") as caught:
        Lists()
    assert said in str(caught.value) and "\n" not in str(caught.value) and str(caught.value).isprintable()


NODE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module 'x'
    at Function.executeUserEntryPoint [as runMain] (node:internal/modules/run_main:164:12) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v20.20.2"""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program",), "no-such-program does not start: .*No such file"),
        (("{python}", "-c", "import sys; sys.exit('it lacks a key')"), ".* does not start: it lacks a key; .*HOME"),
        (("{python}", "-c", f"import sys; sys.exit({NODE!r})"), ".* start: Error: Cannot find module 'x' code"),
        (
            ("{python}", "-c", "import absent"),
            ".* start: ModuleNotFoundError: No module named 'absent'; of your .*: add others to `variables`",
        ),
    ],
)
def test_server_that_does_not_start_is_a_one_line_error(command: tuple[str, ...], said: str) -> None:
    class Absent(Odd):
        pass

    Absent.command = command
    with pytest.raises(CoevolveError, match=f"odd: the MCP server {said}") as caught:
        Absent()
    assert "\n" not in str(caught.value)


HABITS = """
import os, sys
from typing import Any
import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.stdio import stdio_server

NUMBER = {"type": "object", "properties": {"half": {"type": "number"}}, "required": ["half"]}
ANY = {"type": "object"}

def text(words):
    return types.CallToolResult(content=[types.TextContent(text=words)])

async def listed(context, params):
    given = {"nulls": NUMBER, "silent": NUMBER}
    tools = [types.Tool(name=name, input_schema=ANY, output_schema=given.get(name)) for name in ANSWERS]
    return types.ListToolsResult(tools=tools, next_cursor="")

async def progress(context, of):
    for step in range(of["steps"]):
        await context.session.send_progress_notification(77, step)
        await anyio.sleep(of["pause"])
    return text("done")

async def roots(context, of):
    return text(str(await context.session.list_roots()))

async def changed(context, of):
    await context.session.send_tool_list_changed()
    return text("changed")

async def ends(context, of):
    print("a line of the log\\nValueError: the disk is gone", file=sys.stderr, flush=True)
    os._exit(3)

async def strict(context, of):
    raise MCPError(code=-32602, message="invalid params", data={"missing": "path"})

def structured(value, *parts):
    return types.CallToolResult(content=list(parts), structured_content=value)

ANSWERS = {
    "note": lambda of: types.EmbeddedResource(
        resource=types.TextResourceContents(uri="note://" + of["title"], text="the note " + of["title"])),
    "scan": lambda of: types.EmbeddedResource(
        resource=types.BlobResourceContents(uri="scan://" + of["title"], blob=of["bytes"])),
    "image": lambda of: types.ImageContent(data=of["bytes"], mime_type="image/png"),
    "link": lambda of: types.ResourceLink(name="a file", uri="file:///" + of["title"]),
    "empty": lambda of: types.TextContent(text=""),
    "none": lambda of: types.CallToolResult(content=[]),
    "words": lambda of: structured({"words": 4}),
    "both": lambda of: structured({"words": 4}, types.TextContent(text='{ "words": 4 }')),
    "more": lambda of: structured({"words": 4}, types.TextContent(text="counted")),
    "nulls": lambda of: structured({"half": None}, types.TextContent(text='{"half": null}')),
    "silent": lambda of: types.TextContent(text="1.5"),
    "progress": progress, "roots": roots, "changed": changed, "ends": ends, "strict": strict,
}

async def called(context, params):
    made = ANSWERS[params.name]
    if made in (progress, roots, changed, ends, strict):
        return await made(context, params.arguments)
    answer = made(params.arguments or {})
    return answer if isinstance(answer, types.CallToolResult) else types.CallToolResult(content=[answer])

async def main():
    server = Server("habits", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

print("habits 1.0 is ready", flush=True)
anyio.run(main)
"""


class Habits(Odd):
    """A server with the habits of real ones."""

    name = "habits"
    command = ("{python}", "-c", HABITS)


@pytest.fixture
def server() -> Iterator[McpServer]:
    with closing(McpServer(Habits(), {"split": "seed"})) as started:
        yield started


def test_an_answer_shows_all_its_parts_and_tells_them_apart(server: McpServer) -> None:
    one, other = {"title": "one", "bytes": "AAAA"}, {"title": "two", "bytes": "BBBB"}
    assert server.call("note", one) == ("the note one", False)
    for tool in ("note", "scan", "image", "link"):
        assert server.call(tool, one) == server.call(tool, one) != server.call(tool, other)
    image = json.loads(server.call("image", one)[0])
    assert image["mimeType"] == "image/png" and image["data"].startswith("sha256:")
    assert json.loads(server.call("scan", one)[0])["resource"]["uri"] == "scan://one"
    said = [server.call(tool, {})[0] for tool in ("empty", "none", "words", "both", "more")]
    assert said == ["", "", '{"words": 4}', '{ "words": 4 }', 'counted\n{"words": 4}']


def test_what_a_server_does_against_the_protocol_is_used_and_noted_once(
    server: McpServer, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [server.call(tool, {})[0] for tool in ("nulls", "silent", "nulls")] == [
        '{"half": null}',
        "1.5",
        '{"half": null}',
    ]
    assert server.call("changed", {}) == ("changed", False)
    said, refused = server.call("roots", {})
    assert refused and "roots" in said
    assert server.call("strict", {}) == ('invalid params\n{"missing": "path"}', True)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(" (")[0] for line in lines if "schema" in line] == [
        f"habits: the answer of {tool} breaks its own output schema and counts as it came"
        for tool in ("nulls", "silent")
    ]
    assert len(lines) == 2, lines


def test_lines_on_stdout_are_one_note_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    habits = Habits()
    with closing(McpServer(habits, {"split": "seed"})) as again:
        assert again.call("none", {}) == ("", False)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("prints to stdout, where only JSON-RPC may be: 'habits 1.0 is ready'")


def test_progress_renews_the_deadline_up_to_a_limit() -> None:
    habits = Habits()
    habits.seconds = 3.0
    with closing(McpServer(habits, {"split": "seed"})) as patient:
        assert patient.call("progress", {"steps": 4, "pause": 1.0}) == ("done", False)
        with pytest.raises(RuntimeError, match=r"not answered within 3 s after its last progress, or 10 times that"):
            patient.call("progress", {"steps": 1, "pause": 60})


def test_the_last_words_of_a_server_are_the_cause(server: McpServer) -> None:
    with pytest.raises(RuntimeError, match=r"ends was not answered: .*\(ValueError: the disk is gone\)"):
        server.call("ends", {})


def test_a_schema_without_properties_allows_any_argument() -> None:
    with closing(Habits().open()) as session:
        session.reset(Habits().tasks("seed")[0])
        assert session.step(ToolCall("note", {"title": "any"})).content == "the note any"
        itself: list[object] = []
        itself.append(itself)
        turn = session.step(ToolCall("note", {"title": itself}))
        assert turn.error and "must be JSON" in turn.content

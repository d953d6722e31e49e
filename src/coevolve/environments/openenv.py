"""Any OpenEnv server as an environment; runs in a worker that has OpenEnv's packages.

OPENENV_URL names the server, OPENENV_SESSIONS how many sessions it allows at once (16).

Spoken over its WebSocket, where alone a session's state lives. Tools are those that the server lists (MCP style); a
server with an action of its own gets one tool ``act`` with that action's schema. Tasks come from the server's task API;
without one they are numbered seeds, and have no reference. The score is the server's last reward: it cannot judge tasks
that it does not know, so the loop can train on such an environment, and evaluates, but what it synthesizes is rejected.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments import wire
from coevolve.environments.environment import Environment, Session, check_owner

SPLITS = {"seed": ("seed", "train"), "validation": ("validation", "valid", "dev", "test"), "test": ("test",)}
SEEDS = {"seed": 256, "validation": 64, "test": 64}  # for a server without tasks
SESSIONS = 16  # at once, unless OPENENV_SESSIONS says more: a server refuses those above its own limit
SECONDS = 60.0
SAY = "say"


def url() -> str:
    found = os.environ.get("OPENENV_URL", "").rstrip("/")
    if not found.startswith(("http://", "https://")):
        raise CoevolveError("openenv needs a server: set OPENENV_URL, as in OPENENV_URL=http://127.0.0.1:8000")
    return found


def _http(path: str, body: Any = None) -> Any:
    """The JSON answer; None where the server has no such thing."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url() + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError:
        return None
    except (OSError, ValueError) as error:
        raise CoevolveError(f"{url()}: no OpenEnv server answers ({error})") from None


class OpenEnv(Environment):
    """An OpenEnv server as an environment."""

    name = "openenv"
    panels = ("validation", "test")

    def __init__(self) -> None:
        self.capacity = int(os.environ.get("OPENENV_SESSIONS", SESSIONS))
        about = _http("/metadata") or {}
        self._server = str(about.get("name") or "environment")
        self.fingerprint = f"openenv-{self._server}-{about.get('version') or 'unversioned'}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks(self._server, self.fingerprint, split)

    def tools(self) -> Sequence[dict[str, Any]]:
        with _Socket() as socket:
            socket.ask("reset", {"seed": 0})
            return [tool for tool in _offered(socket) if tool["function"]["name"] != SAY]

    def open(self) -> "OpenEnvSession":
        return OpenEnvSession()


class _Socket:
    """One WebSocket, which is one session of the server."""

    def __init__(self) -> None:
        from websockets.sync.client import connect

        address = url().replace("http", "ws", 1) + "/ws"
        try:
            self._socket = connect(address, open_timeout=SECONDS, max_size=None)
        except OSError as error:
            raise CoevolveError(f"{url()}: no OpenEnv server answers ({error})") from None

    def ask(self, kind: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer's data; an error of the server is a RuntimeError."""
        message: dict[str, Any] = {"type": kind} if data is None else {"type": kind, "data": data}
        self._socket.send(json.dumps(message))
        reply = json.loads(self._socket.recv(timeout=SECONDS))
        if reply["type"] == "error":
            raise RuntimeError(f"{reply['data'].get('code', 'error')}: {reply['data'].get('message', '')}")
        found: dict[str, Any] = reply["data"]
        return found

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "_Socket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OpenEnvSession(Session):
    """A session of the server, over a WebSocket of its own."""

    def __init__(self) -> None:
        self._socket: _Socket | None = None
        self._tools: dict[str, dict[str, Any]] = {}
        self._accepted: list[Any] = []
        self._reward: float | None = None
        self._done = False

    def reset(self, task: Task) -> Observation:
        check_owner(task, "openenv")
        self.close()
        self._socket = _Socket()
        self._accepted, self._reward, self._done = [], None, False
        place: dict[str, Any] = {key: task.world[key] for key in ("seed", "split", "index") if key in task.world}
        heard = self._hear(self._socket.ask("reset", place))
        offered = _offered(self._socket)
        self._tools = {tool["function"]["name"]: tool for tool in offered}
        shown = [tool for name, tool in self._tools.items() if name != SAY]
        return Observation("user", task.turns[0] if "index" in task.world else heard or task.turns[0], tools=shown)

    def _hear(self, result: dict[str, Any]) -> str:
        """What an observation says; reward and end are kept."""
        self._reward = float(result["reward"]) if result.get("reward") is not None else self._reward
        self._done = bool(result.get("done"))
        observation = {
            key: value for key, value in result["observation"].items() if key not in ("metadata", "tool_name")
        }
        if "result" in observation:
            content = observation["result"]
            content = content.get("data", content) if isinstance(content, dict) else content
            return content if isinstance(content, str) else json.dumps(content)
        return json.dumps(observation)

    def step(self, call: ToolCall) -> Observation:
        if self._socket is None or self._done:
            return Observation("tool", "the episode is over", error=True, done=True)
        tool = self._tools.get(call.name)
        unknown = (
            set(call.arguments) - set(tool["function"]["parameters"].get("properties", {})) if tool else {call.name}
        )
        if call.name == SAY or unknown:
            return Observation("tool", f"unknown: {', '.join(sorted(unknown)) or call.name}"[:200], error=True)
        try:
            result = self._socket.ask("step", _action(call, tool))
        except RuntimeError as error:
            return Observation("tool", str(error), error=True)
        content = self._hear(result)
        if problem := result["observation"].get("error"):
            said = problem.get("message", problem) if isinstance(problem, dict) else problem
            return Observation("tool", str(said), error=True, done=self._done)
        self._accepted.append([call.name, call.arguments])
        return Observation("tool", content, done=self._done)

    def say(self, text: str) -> Observation:
        if self._socket is None or self._done or SAY not in self._tools:
            self._done = True
            return Observation("user", "", done=True)
        content = self._hear(self._socket.ask("step", _action(ToolCall(SAY, {"text": text}), self._tools[SAY])))
        self._accepted.append([SAY])
        return Observation("user", content, done=self._done)

    def score(self) -> Score:
        reward = self._reward
        if self._socket is not None and reward is None:
            reward = self._socket.ask("state").get("reward")
        reward = min(max(float(reward or 0.0), 0.0), 1.0)
        return Score(reward, {"rewarded": reward > 0})

    def digest(self) -> str:
        state = self._socket.ask("state") if self._socket is not None else {}
        return str(state.get("digest") or content_hash(self._accepted))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _offered(socket: _Socket) -> list[dict[str, Any]]:
    """OpenAI schemas of the tools of a server, or of its one action."""
    try:
        listed = socket.ask("step", {"type": "list_tools"})["observation"].get("tools")
    except RuntimeError:
        listed = None
    if listed is not None:
        return [_function(tool["name"], tool["description"], tool["input_schema"]) for tool in listed]
    schema = (_http("/schema") or {}).get("action", {})
    properties = {key: value for key, value in schema.get("properties", {}).items() if key != "metadata"}
    return [
        _function("act", schema.get("description") or "Act in the environment", {**schema, "properties": properties})
    ]


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _action(call: ToolCall, tool: dict[str, Any] | None) -> dict[str, Any]:
    if tool is not None and call.name == "act":
        return call.arguments
    return {"type": "call_tool", "tool_name": call.name, "arguments": call.arguments}


@cache
def _tasks(server: str, fingerprint: str, split: str) -> tuple[Task, ...]:
    known = [one["name"] for one in _http(f"/{server}/splits") or []]
    theirs = next((name for name in SPLITS[split] if name in known), None)
    if theirs is None:
        first = 100_000 * list(SPLITS).index(split)
        worlds = [{"server": fingerprint, "seed": first + number} for number in range(SEEDS[split])]
        return tuple(Task.create("openenv", split, [f"episode {one['seed']}"], one, [[]], ["seeded"]) for one in worlds)
    specs = (_http(f"/{server}/tasks", {"split": theirs}) or {}).get("tasks", [])
    return tuple(
        _task(spec, {"server": fingerprint, "split": theirs, "index": n}, split) for n, spec in enumerate(specs)
    )


def _task(spec: Any, world: dict[str, Any], split: str) -> Task:
    """A task of a server; one of ours brings its reference along."""
    fields: dict[str, Any] = spec if isinstance(spec, dict) else {"instruction": str(spec)}
    if "coevolve" in fields:
        ours = wire.to_task(fields["coevolve"])
        return Task.create("openenv", split, ours.turns, world, ours.reference, ours.tags)
    words = next(
        (str(fields[key]) for key in ("instruction", "prompt", "question") if fields.get(key)), json.dumps(fields)
    )
    return Task.create("openenv", split, [words], world, [[]], ["server"])

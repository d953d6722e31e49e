"""Any OpenEnv server as an environment. Runs in a worker that has OpenEnv's packages.

OPENENV_URL is the address of the server, OPENENV_SESSIONS the number of sessions that it allows at the same time (16).

A session is a connection of OpenEnv's own client. Tools are those that the server lists (MCP style). A server with its own
kind of action gets one tool ``act`` with that action's schema. Tasks come from the server's task API. Without this API they are
numbered seeds and have no reference. The score is the server's last reward. The server cannot judge tasks that it does not
know, so the loop can train and evaluate here, and verification rejects synthesized tasks.
"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any

from coevolve.core import numeric_options
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.core.untrusted import base_url, loads, one_line, sound
from coevolve.environments import wire
from coevolve.environments.environment import Environment, EnvironmentFailed, NoRoom, Session, check_owner
from coevolve.environments.hosted import Hosted
from coevolve.environments.wire import SAY
from coevolve_environments.tool_list import ToolList, answer, cut, function, unknown

SPLITS = {"seed": ("seed", "train"), "validation": ("validation", "valid", "dev", "test"), "test": ("test",)}
SEEDS = {"seed": 256, "validation": 64, "test": 64}  # numbers of tasks for a server without a task API
SESSIONS = 16  # sessions at the same time unless OPENENV_SESSIONS is set; a server refuses sessions above its own limit
SECONDS = 30.0  # for an answer of the server
FRAME = 16.0  # most MiB of a server's message
LARGEST = 1e9  # largest reward
ABSENT = (404, 405, 410, 426, 501)  # answers of a server that lacks a path; 426 from one that speaks WebSocket alone
FULL = "CAPACITY_REACHED"  # the protocol's code for a server without a free session
REFUSAL = "Server error: "  # begins the client's error for an answer that is an error


class OpenEnvRefused(Exception):
    """The server answered with an error."""


def url() -> str:
    try:
        return base_url(os.environ.get("OPENENV_URL", ""))
    except ValueError as error:
        raise CoevolveError(
            f"openenv needs a server: set OPENENV_URL, for example OPENENV_URL=http://127.0.0.1:8000 ({error})"
        ) from None


def _http(path: str, body: Any = None) -> Any:
    """The JSON answer to an HTTP request; None if the server does not have this path."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url() + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return loads(reply.read())
    except urllib.error.HTTPError as error:
        if error.code in ABSENT:
            return None
        raise CoevolveError(f"{url()}{path}: the server answers with error {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise CoevolveError(f"{url()}: no OpenEnv server answers ({one_line(str(error))})") from None


class OpenEnv(Environment):
    """An OpenEnv server as an environment."""

    name = "openenv"
    panels = ("validation", "test")

    def __init__(self) -> None:
        self.capacity = numeric_options.variable("OPENENV_SESSIONS", numeric_options.count, SESSIONS)
        about = _http("/metadata")
        about = about if isinstance(about, dict) else {}
        self._server = one_line(str(about.get("name") or "environment"), 80)
        self.fingerprint = one_line(f"openenv-{self._server}-{about.get('version') or 'unversioned'}")

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks(self._server, self.fingerprint, split)

    def tools(self) -> Sequence[dict[str, Any]]:
        try:
            with closing(OpenEnvSession()) as session:
                session.ask("reset", seed=0)
                return [tool for tool in session.offered() if tool["function"]["name"] != SAY]
        except (EnvironmentFailed, OpenEnvRefused) as error:
            raise CoevolveError(f"{url()}: {error}") from None

    def open(self) -> "OpenEnvSession":
        return OpenEnvSession()


class OpenEnvSession(Session):
    """A session of the server, with its own connection."""

    def __init__(self) -> None:
        self._client: Any = None
        self._tools: dict[str, dict[str, Any]] = {}
        self._accepted: list[Any] = []
        self._reward: float | None = None
        self._done = False

    def reset(self, task: Task) -> Observation:
        check_owner(task, "openenv")
        self.close()
        self._accepted, self._reward, self._done = [], None, False
        place: dict[str, Any] = {key: task.world[key] for key in ("seed", "split", "index") if key in task.world}
        try:
            heard = self._hear(self.ask("reset", **place))
            offered = self.offered()
        except OpenEnvRefused as error:
            kind = NoRoom if FULL in str(error) else EnvironmentFailed
            raise kind(f"the server refuses to start {json.dumps(place)[:80]}: {error}") from None
        self._tools = {tool["function"]["name"]: tool for tool in offered}
        shown = [tool for name, tool in self._tools.items() if name != SAY]
        return Observation("user", task.turns[0] if "index" in task.world else heard or task.turns[0], tools=shown)

    def ask(self, kind: str, *action: Any, **place: Any) -> dict[str, Any]:
        """The answer to a request of the ``kind`` reset, step or state. OpenEnvRefused if it is an error.

        Without a valid answer the session is lost.
        """
        from openenv.core.generic_client import GenericEnvClient

        if self._client is None and kind != "reset":
            raise EnvironmentFailed("the session is closed")
        try:
            if self._client is None:
                limits = {"message_timeout_s": SECONDS, "max_message_size_mb": FRAME}
                # a late answer to a ping is no error, because each request has a limit
                self._client = GenericEnvClient(url(), websocket_ping_timeout_s=None, **limits).sync()
            answer = getattr(self._client, kind)(*action, **place)
            told: dict[str, Any] = sound(answer if kind == "state" else vars(answer))
            return told
        except Exception as error:  # the client checks no answer, so an invalid one raises any error
            if str(error).startswith(REFUSAL):
                raise OpenEnvRefused(one_line(str(error).removeprefix(REFUSAL))) from None
            self.close()
            reason = f"no answer within {SECONDS:g} s" if isinstance(error, TimeoutError) else one_line(repr(error))
            raise EnvironmentFailed(f"the server at {url()} broke off at {kind} ({reason})") from None

    def offered(self) -> list[dict[str, Any]]:
        """OpenAI schemas of the server's tools, or of its action."""
        try:
            observation = self.ask("step", {"type": "list_tools"})["observation"]
            listed = observation.get("tools") if isinstance(observation, dict) else None
        except OpenEnvRefused:
            listed = None
        if listed is None:
            return [_act()]
        tools = ToolList()
        try:
            for tool in listed:
                tools.add(tool["name"], tool["description"], tool["input_schema"])
        except (KeyError, TypeError, ValueError) as error:
            reason = error if isinstance(error, ValueError) else "expected name, description and input_schema"
            raise EnvironmentFailed(f"the server's tools cannot be read: {reason}") from None
        return tools.schemas

    def _hear(self, result: dict[str, Any]) -> str:
        """The text of an observation. Stores the reward and the end of the episode."""
        observation, done = result.get("observation"), result.get("done")
        if not isinstance(observation, dict) or not isinstance(done, bool | type(None)):
            raise EnvironmentFailed("the server's answer is no observation")
        if result.get("reward") is not None:
            self._reward = _number(result["reward"])
        self._done = bool(done)
        said: Any = {key: value for key, value in observation.items() if key not in ("metadata", "tool_name")}
        if "result" in said:
            said = said["result"]
            if isinstance(said, dict) and said.get("data") is not None:
                said = said["data"]
            elif isinstance(said, dict) and isinstance(parts := said.get("content"), list):
                said = answer(parts, said.get("structured_content"))
        return cut(said if isinstance(said, str) else json.dumps(said))

    def step(self, call: ToolCall) -> Observation:
        if self._client is None or self._done:
            return Observation("tool", "the episode is over", error=True, done=True)
        tool = self._tools.get(call.name)
        wrong = unknown(call.arguments, tool["function"]["parameters"]) if tool else [call.name]
        if call.name == SAY or wrong:
            return Observation("tool", f"unknown: {', '.join(wrong) or call.name}"[:200], error=True)
        try:
            result = self.ask("step", _action(call, tool))
        except OpenEnvRefused as error:
            return Observation("tool", str(error), error=True)
        content = self._hear(result)
        if problem := result["observation"].get("error"):
            said = problem.get("message", problem) if isinstance(problem, dict) else problem
            return Observation("tool", cut(str(said)), error=True, done=self._done)
        self._accepted.append([call.name, call.arguments])
        return Observation("tool", content, done=self._done)

    def say(self, text: str) -> Observation:
        if self._client is None or self._done or SAY not in self._tools:
            self._done = True
            return Observation("user", "", done=True)
        try:
            result = self.ask("step", _action(ToolCall(SAY, {"text": text}), self._tools[SAY]))
        except OpenEnvRefused as error:
            return Observation("user", str(error))
        content = self._hear(result)
        self._accepted.append([SAY])
        return Observation("user", content, done=self._done)

    def _state(self) -> dict[str, Any]:
        """The server's state; empty if it answers with an error, because an earlier request may be the cause."""
        try:
            return self.ask("state") if self._client is not None else {}
        except OpenEnvRefused:
            return {}

    def score(self) -> Score:
        reward = self._reward
        if reward is None and (told := self._state().get("reward")) is not None:
            reward = _number(told)
        reward = min(max(reward or 0.0, 0.0), 1.0)
        return Score(reward, {"rewarded": reward > 0})

    def digest(self) -> str:
        told = self._state().get("digest")
        return told if isinstance(told, str) and 0 < len(told) <= 200 else content_hash(told or self._accepted)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _number(reward: Any) -> float:
    """A reward, which must be a finite number."""
    if isinstance(reward, int | float) and -LARGEST <= reward <= LARGEST:
        return float(reward)
    raise EnvironmentFailed(f"the server's reward is {str(reward)[:40]!r}, expected a number")


@cache
def _act() -> dict[str, Any]:
    """The action of a server without tools. Cached, because the HTTP request may take long."""
    told = _http("/schema")
    schema: Any = told.get("action") if isinstance(told, dict) else None
    try:
        properties = {key: value for key, value in schema.get("properties", {}).items() if key != "metadata"}
        words = schema.get("description") or "Act in the environment"
        return function("act", words, {**schema, "properties": properties})
    except (AttributeError, TypeError, ValueError):
        raise CoevolveError(f"{url()}: the server lists no tools, and /schema has no readable action") from None


def _action(call: ToolCall, tool: dict[str, Any] | None) -> dict[str, Any]:
    if tool is not None and call.name == "act":
        return call.arguments
    return {"type": "call_tool", "tool_name": call.name, "arguments": call.arguments}


@cache
def _tasks(server: str, fingerprint: str, split: str) -> tuple[Task, ...]:
    place = f"/{urllib.parse.quote(server, safe='')}"
    try:
        known = [one["name"] for one in _http(f"{place}/splits") or []]
        theirs = next((name for name in SPLITS[split] if name in known), None)
        if theirs is None:
            first = 100_000 * list(SPLITS).index(split)
            worlds = [{"server": fingerprint, "seed": first + number} for number in range(SEEDS[split])]
            return tuple(
                Task.create("openenv", split, [f"episode {one['seed']}"], one, [[]], ["seeded"]) for one in worlds
            )
        specs = (_http(f"{place}/tasks", {"split": theirs}) or {}).get("tasks", [])
        return tuple(
            _task(spec, {"server": fingerprint, "split": theirs, "index": n}, split) for n, spec in enumerate(specs)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoevolveError(
            f"{url()}: the server's tasks of {split} cannot be read ({one_line(repr(error))})"
        ) from None


def _task(spec: Any, world: dict[str, Any], split: str) -> Task:
    """A task of a server. If the server is coevolve's, the task includes its reference."""
    fields: dict[str, Any] = spec if isinstance(spec, dict) else {"instruction": str(spec)}
    if "coevolve" in fields:
        ours = wire.to_task(fields["coevolve"])
        calls = [call for turn in ours.reference for call in turn]
        right = all(isinstance(call.name, str) and isinstance(call.arguments, dict) for call in calls)
        lists = isinstance(ours.turns, list) and isinstance(ours.tags, list) and len(ours.turns) == len(ours.reference)
        if not (right and lists and all(isinstance(text, str) for text in (*ours.turns, *ours.tags)) and ours.turns):
            raise ValueError(f"task {world['index']} is none of ours")
        return Task.create("openenv", split, ours.turns, world, ours.reference, ours.tags)
    words = next(
        (str(fields[key]) for key in ("instruction", "prompt", "question") if fields.get(key)), json.dumps(fields)
    )
    return Task.create("openenv", split, [cut(words)], world, [[]], ["server"])


HOSTED = Hosted(
    "openenv", f"{__name__}:OpenEnv", Path(__file__).parents[1] / "requirements/openenv.txt", each=64, seconds=120.0
)

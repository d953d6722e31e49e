"""Any environment of coevolve as an OpenEnv server: `coevolve env serve NAME`. Runs in the Python that has OpenEnv.

The environment itself runs in workers with coevolve's Python, so the two may have different packages. A client uses MCP style:
it lists tools and calls them. The tool ``say`` sends a message without a call, which brings the user's next turn or ends the
episode. The last answer has the reward, and so has the state at any time.
"""

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
from starlette.responses import JSONResponse

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation as Answer
from coevolve.core.task import ToolCall
from coevolve.core.untrusted import one_line
from coevolve.environments import wire
from coevolve.environments.openenv import SAY
from coevolve.environments.worker import WorkerEnvironment

IDLE = 1800.0  # seconds after which another client may take an unused session
MESSAGE = 2**20  # most bytes of a client's message, and of the body of a request
SPARE = 64  # connections in addition to the sessions
Message = MutableMapping[str, Any]

SAY_TOOL = Tool(
    name=SAY,
    description="Say something to the user, as when a request is done: brings the next request, or the end",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


class Text(Observation):  # type: ignore[misc]
    """The user's first message."""

    content: str = ""


class Served(Environment):  # type: ignore[misc]
    """OpenEnv's Environment over an environment of coevolve, which a subclass sets. The server makes one for each session."""

    world: WorkerEnvironment
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._session: Any = None
        self._tools: list[Tool] = []
        self._steps = 0
        self._state = State(step_count=0)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str = "seed",
        index: int | None = None,
        **_: Any,
    ) -> Observation:
        # check the types: a client may send any JSON, and `%` would format a text
        named = isinstance(split, str) and len(split) <= 64
        if not named or not all(type(one) in (int, type(None)) for one in (seed, index)):
            raise ValueError("expected a split, and a seed or an index; both are whole numbers")
        tasks = self.world.tasks(split)
        place = index if index is not None else (seed or 0) % max(len(tasks), 1)
        if not 0 <= place < len(tasks):
            raise ValueError(f"{split} has {len(tasks)} tasks, numbered from 0")
        task = tasks[place]
        if self._session is not None:
            self._session.close()
        self._session, self._steps = self.world.open(), 0
        turn = self._session.reset(task)
        self._offer(turn)
        self._note()
        return Text(content=turn.content, metadata={"task_id": task.task_id})

    def _note(self) -> None:
        """Store the state. The server reads it in the thread that serves all clients, where a call to a worker takes too long."""
        score, digest = self._session.score(), self._session.digest()
        self._state = State(step_count=self._steps, reward=score.reward, digest=digest)

    def _offer(self, turn: Answer) -> None:
        if turn.tools is not None:
            functions = [one["function"] for one in turn.tools]
            self._tools = [
                Tool(name=one["name"], description=one["description"], input_schema=one["parameters"])
                for one in functions
            ]

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=[*self._tools, SAY_TOOL])
        if not isinstance(action, CallToolAction) or self._session is None:
            raise ValueError("expected reset, and then list_tools or call_tool")
        self._steps += 1
        if action.tool_name == SAY:
            turn = self._session.say(str(action.arguments.get("text", "")))
            self._offer(turn)
        else:
            self._session.begin_reply()
            turn = self._session.step(ToolCall(action.tool_name, action.arguments))
        self._note()
        problem = ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=turn.content) if turn.error else None
        return CallToolObservation(
            tool_name=action.tool_name,
            result=None if problem else turn.content,
            error=problem,
            done=turn.done,
            reward=self._state.reward if turn.done else None,
        )

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name=self.world.name, description=f"{self.world.name}, served by coevolve", version=self.world.fingerprint
        )

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def list_splits(self) -> list[str]:
        return ["seed", *self.world.panels]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self._spec(one) for one in self.world.tasks(split)]

    def num_tasks(self, split: str) -> int:
        return len(self.world.tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        return self._spec(self.world.tasks(split)[index])

    def _spec(self, task: Any) -> dict[str, Any]:
        return {"id": task.task_id, "instruction": task.turns[0], "coevolve": wire.of_task(task)}


async def refused(request: Any, error: Exception) -> JSONResponse:
    """The HTTP answer to a client's mistake."""
    return JSONResponse({"detail": one_line(str(error))}, 400)


class Bounded:
    """Limit a client's body to MESSAGE bytes, because frameworks read the whole body first.

    A failed request is one line of the log. Frameworks would answer with 500 and log a traceback for each request.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        left = MESSAGE

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body") or b"") if message["type"] == "http.request" else 0
            return message if left >= 0 else {"type": "http.disconnect"}

        try:
            await self._app(scope, bounded, send)
        except Exception as error:
            if "path" not in scope:  # the start or end of the server
                raise
            print(one_line(f"{scope['path'][:100]}: {type(error).__name__}: {error}"), file=sys.stderr)


def main() -> None:
    import uvicorn

    name, python, host, port, sessions = sys.argv[1:]
    world = WorkerEnvironment(name, f"={name}", python, 2, (int(sessions) + 1) // 2)
    app = create_fastapi_app(
        type("Served", (Served,), {"world": world}),
        CallToolAction,
        CallToolObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=int(sessions), session_timeout=IDLE),
        env_name=name,
    )
    for mistake in (CoevolveError, ValueError):
        app.add_exception_handler(mistake, refused)
    try:
        uvicorn.run(
            Bounded(app),
            host=host,
            port=int(port),
            log_level="warning",
            limit_concurrency=2 * int(sessions) + SPARE,
            timeout_keep_alive=15,
            ws_max_size=MESSAGE,
            ws_max_queue=2,
        )
    finally:
        world.close()


if __name__ == "__main__":
    main()

"""Any environment of coevolve as an OpenEnv server: `coevolve env serve NAME`. Runs in the Python that has OpenEnv.

A client uses MCP style: it lists tools and calls them. The tool ``say`` sends a message without a call, which brings the user's next turn or ends the
episode. The last answer has the reward, and so has the state at any time. A client that adds up the rewards of all steps asks
for changes in ``reset``: then each answer has the change of the score, and the sum is the score even if no end is reached.
"""

from collections.abc import Sequence
from dataclasses import asdict
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
from coevolve.core.guard import guard
from coevolve.core.task import Observation as Answer
from coevolve.core.task import Task, ToolCall
from coevolve.core.untrusted import one_line
from coevolve.environments.border import crossed
from coevolve.environments.wire import SAY, SAY_TOOL
from coevolve.environments.worker import WorkerEnvironment
from coevolve.trainers.serving import Offer, serve

SPLIT = "tasks"  # the split of the tasks of a file
REWARDS = ("last", "change")
IDLE = 1800.0  # seconds after which another client may take an unused session


class Text(Observation):  # type: ignore[misc]
    """The user's first message."""

    content: str = ""


class Served(Environment):  # type: ignore[misc]
    """OpenEnv's Environment over an environment of coevolve, which a subclass sets. The server makes one for each session.

    A subclass may also set ``file`` and its ``checked`` tasks, which are the split SPLIT.
    """

    world: WorkerEnvironment
    file = ""
    checked: Sequence[Task] = ()
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._session: Any = None
        self._tools: list[dict[str, Any]] | None = None  # of the episode
        self._steps = 0
        self._paid: float | None = None  # the sum of the changes that the client has; None if it wants the last reward
        self._state = State(step_count=0)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str = "seed",
        index: int | None = None,
        rewards: str = "last",
        **_: Any,
    ) -> Observation:
        if rewards not in REWARDS:
            raise ValueError(f"expected rewards to be one of: {', '.join(REWARDS)}")
        task = self._task(split, index if index is not None else (seed or 0) % max(len(self.tasks(split)), 1))
        if self._session is not None:
            self._session.close()
        self._session, self._steps = self.world.open(), 0
        self._paid = 0.0 if rewards == "change" else None
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
            self._tools = turn.tools

    def _reward(self, done: bool) -> float | None:
        if self._paid is None:
            return self._state.reward if done else None
        before, self._paid = self._paid, self._state.reward
        return self._paid - before

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            # some clients ask before the first reset: then all tools that a task may offer
            tools = [*(self._tools or self.world.tools()), {"function": SAY_TOOL}]
            return ListToolsObservation(tools=[*map(_tool, tools)])
        if not isinstance(action, CallToolAction) or self._session is None:
            raise ValueError("expected reset, and then list_tools or call_tool")
        self._steps += 1
        if (text := _spoken(action)) is not None:
            turn = self._session.say(text)
            self._offer(turn)
        else:
            self._session.begin_reply()
            call = ToolCall(action.tool_name, action.arguments)
            turn = self._session.step(crossed(call, self._tools))
        self._note()
        problem = ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=turn.content) if turn.error else None
        return CallToolObservation(
            tool_name=action.tool_name,
            result=None if problem else turn.content,
            error=problem,
            done=turn.done,
            reward=self._reward(turn.done),
        )

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        about = f"{self.world.name}, served by coevolve"
        if self.checked:
            about += f"; split {SPLIT}: {len(self.checked)} checked tasks of {self.file}"
        return EnvironmentMetadata(name=self.world.name, description=about, version=self.world.fingerprint)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def tasks(self, split: str) -> Sequence[Task]:
        return self.checked if self.checked and split == SPLIT else self.world.tasks(split)

    def list_splits(self) -> list[str]:
        return [*([SPLIT] if self.checked else []), "seed", *self.world.panels]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self._spec(one) for one in self.tasks(split)]

    def num_tasks(self, split: str) -> int:
        return len(self.tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        return self._spec(self._task(split, index))

    def _task(self, split: str, index: int) -> Task:
        tasks = self.tasks(split)
        if not 0 <= index < len(tasks):
            raise ValueError(f"{split} has {len(tasks)} tasks, numbered from 0")
        return tasks[index]

    def _spec(self, task: Any) -> dict[str, Any]:
        return {"id": task.task_id, "instruction": task.turns[0], "coevolve": asdict(task)}


def _tool(schema: dict[str, Any]) -> Tool:
    one = schema["function"]
    return Tool(name=one["name"], description=one["description"], input_schema=one["parameters"])


def _spoken(action: CallToolAction) -> str | None:
    """The text that an action says to the user; None if the action is a call.

    verifiers' player sends an answer that is no JSON as the name of a tool. No tool has a space in its name.
    """
    if action.tool_name == SAY:
        return str(action.arguments.get("text", ""))
    return action.tool_name if not action.arguments and " " in action.tool_name.strip() else None


async def refused(request: Any, error: Exception) -> JSONResponse:
    """The HTTP answer to a client's mistake."""
    return JSONResponse({"detail": one_line(str(error))}, 400)


def application(offer: Offer) -> Any:
    """The server's web application."""
    app = create_fastapi_app(
        type("Served", (Served,), {"world": offer.world, "file": offer.file, "checked": offer.checked}),
        CallToolAction,
        CallToolObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=offer.sessions, session_timeout=IDLE),
        env_name=offer.world.name,
    )
    for mistake in (CoevolveError, ValueError):
        app.add_exception_handler(mistake, refused)
    return app


def main() -> None:
    serve("OpenEnv", SPLIT, application)


if __name__ == "__main__":
    guard(main)

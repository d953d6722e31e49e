"""The world of a Harbor task: a service beside the agent's container, with the task's tools as an MCP server at /mcp.

POST /call {name, arguments} makes the same calls without MCP. GET /reward gives the score to whoever has the token of the
environment variable COEVOLVE_TOKEN, as the verifier does. `coevolve export tasks --for harbor` writes the folder that starts it:

    python -m coevolve.trainers.harbor_world ENVIRONMENT TASK.json PORT
"""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from hmac import compare_digest
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coevolve.core.guard import guard
from coevolve.core.io import read_json
from coevolve.core.task import Observation, Task
from coevolve.environments import wire
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.trainers.replay import Replay, call, told


class HarborWorld:
    """An episode of ``task``. One thread plays it, since a session belongs to a thread."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._episode: Replay = self._thread.submit(Replay, environment, task).result()

    async def _run(self, *work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, *work)

    async def _answer(self, name: str, arguments: dict[str, Any]) -> Observation:
        turn: Observation = await self._run(self._episode.answer, call(name, arguments))
        return turn

    async def list_tools(self, context: Any, asked: Any) -> types.ListToolsResult:
        functions = [schema["function"] for schema in self._episode.tools]
        tools = [
            types.Tool(name=one["name"], description=one["description"], input_schema=one["parameters"])
            for one in functions
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        turn = await self._answer(asked.name, asked.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=told(turn))], is_error=turn.error)

    async def plain_call(self, request: Asked) -> Response:
        asked = await request.json()
        turn = await self._answer(str(asked["name"]), dict(asked["arguments"]))
        return JSONResponse({"content": told(turn), "error": turn.error})

    async def reward(self, request: Asked) -> Response:
        if not compare_digest(request.headers.get("authorization", ""), f"Bearer {os.environ['COEVOLVE_TOKEN']}"):
            return JSONResponse({"detail": "the reward is for the verifier"}, 403)
        score = await self._run(self._episode.score)
        return JSONResponse({"reward": score.reward})


def main() -> None:
    name, file, port = sys.argv[1:]
    world = HarborWorld(make(name), wire.to_task(read_json(Path(file))))
    server = Server("world", on_list_tools=world.list_tools, on_call_tool=world.call_tool)
    routes = [Route("/call", world.plain_call, methods=["POST"]), Route("/reward", world.reward)]
    app = server.streamable_http_app(host="0.0.0.0", custom_starlette_routes=routes)
    uvicorn.run(app, host="0.0.0.0", port=int(port), log_level="warning")


if __name__ == "__main__":
    guard(main)

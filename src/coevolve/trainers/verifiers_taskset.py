"""Tasks of coevolve as a taskset of verifiers 0.4. Runs in the Python that has verifiers. `coevolve export tasks --for verifiers`
writes the package that names the tasks.

An agent gets the tools of its task as native calls, from one MCP server for all rollouts. The rollout's state is the list of its
requests: the server, the user's turns and the reward each follow that list in a session of their own, so a rollout scores as in
coevolve, also if a limit of turns ends it.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import verifiers.v1 as vf
from mcp.types import CallToolResult, TextContent, Tool
from pydantic import Field

from coevolve.core.task import Observation, misfit
from coevolve.environments import wire
from coevolve.trainers.replay import Replay, Request, call, last_answer, made, refusal, say, score, told

OPEN = 256  # episodes that the tool server keeps open; a further one closes the oldest, whose next call replays it


class CoevolveData(vf.TaskData):  # type: ignore[misc]
    """A task. ``coevolve`` is its record in tasks.jsonl."""

    coevolve: dict[str, Any]


class RolloutState(vf.State):  # type: ignore[misc]
    """What the tool server needs to know of a rollout. verifiers copies it to the server and back at each call."""

    rollout: str = ""
    coevolve: dict[str, Any] = Field(default_factory=dict)
    requests: list[Request] = Field(default_factory=list)


class CoevolveTask(vf.Task[CoevolveData, RolloutState]):  # type: ignore[misc]
    """The task's reward is the environment's own. `vf-validate` replays its reference."""

    @property
    def key(self) -> str:
        return str(self.data.id)

    async def setup(self, trace: Any, runtime: Any) -> None:
        trace.state.rollout, trace.state.coevolve = trace.id, self.data.coevolve

    @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]
    async def coevolve(self, trace: Any) -> float:
        task = wire.to_task(self.data.coevolve)
        result = await asyncio.to_thread(score, made(task.environment), task, trace.state.requests)
        return result.reward

    async def validate(self, runtime: Any) -> bool:
        task = wire.to_task(self.data.coevolve)
        return not await asyncio.to_thread(refusal, made(task.environment), task)


class CoevolveTools(vf.Toolset[vf.SharedToolsetConfig, RolloutState]):  # type: ignore[misc]
    """An MCP server with the tools that each rollout's task offers now."""

    TOOL_PREFIX = None

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._episodes: OrderedDict[str, Replay] = OrderedDict()

    def register(self, mcp: Any) -> None:
        # the tools differ between rollouts, so these two methods of the server are replaced, as verifiers' own NeMoGymToolset does
        mcp.list_tools = self._with_state(self.list_tools)
        mcp.call_tool = self._with_state(self.call_tool)

    def _episode(self, state: Any) -> Replay:
        """The episode of a rollout, after all its requests."""
        if state.rollout not in self._episodes:
            task = wire.to_task(state.coevolve)
            self._episodes[state.rollout] = Replay(made(task.environment), task)
            if len(self._episodes) > OPEN:
                self._episodes.popitem(last=False)[1].close()
        self._episodes.move_to_end(state.rollout)
        episode = self._episodes[state.rollout]
        episode.follow(state.requests)
        return episode

    async def list_tools(self) -> list[Tool]:
        episode = self._episode(self.state)
        return [
            Tool(name=one["name"], description=one["description"], input_schema=one["parameters"])
            for one in (schema["function"] for schema in episode.tools)
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> CallToolResult:
        turn = self._answer(name, arguments)
        return CallToolResult(content=[TextContent(type="text", text=told(turn))], is_error=turn.error)

    def _answer(self, name: str, arguments: dict[str, Any]) -> Observation:
        if wrong := misfit(name, arguments):
            return Observation("tool", wrong, error=True)
        self.state.requests.append(call(name, arguments))
        return self._episode(self.state).turn


class CoevolveEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """The agent needs no sandbox: it runs no code, and its tools are those of the task."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())


class CoevolveEnv(vf.Env[CoevolveEnvConfig]):  # type: ignore[misc]
    """The user: answers a message without a call with the next request, until there is none."""

    async def run(self, task: CoevolveTask, agents: Any) -> None:
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                state = interaction.trace.state
                state.requests.append(say(segment.last_reply))
                turn = await asyncio.to_thread(_heard, state.coevolve, list(state.requests))
                if turn.done:
                    break
                segment = await interaction.turn(turn.content)


def _heard(record: dict[str, Any], requests: list[Request]) -> Observation:
    task = wire.to_task(record)
    return last_answer(made(task.environment), task, requests)


class CoevolveTaskset(vf.Taskset[CoevolveTask, vf.TasksetConfig]):  # type: ignore[misc]
    """The tasks of ``FILE``, which a package of `coevolve export tasks --for verifiers` sets."""

    FILE: ClassVar[Path]

    def load(self) -> Iterator[CoevolveTask]:
        for line in self.FILE.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            data = CoevolveData(
                id=record["task_id"], name=record["task_id"], prompt=record["turns"][0], coevolve=record
            )
            yield CoevolveTask(data, self.config.task)

    @classmethod
    def toolsets(cls, config: Any) -> list[Any]:
        return [CoevolveTools(vf.SharedToolsetConfig())]


if __name__ == "__main__":
    CoevolveTools.run()

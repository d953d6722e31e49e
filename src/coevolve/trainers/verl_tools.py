"""Tools and reward for verl 0.9's tool agent loop. Runs in the Python that has verl.

`coevolve export tasks --for verl` writes the rows and the configuration that name this module. A rollout's requests are kept in
verl's own state of the rollout. Each call replays them in the environment, and so does the reward.
"""

import asyncio
from typing import Any

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse

from coevolve.core.task import Observation, misfit
from coevolve.trainers import replay
from coevolve.trainers.replay import Request

REQUESTS = "coevolve_requests"  # in verl's state of a rollout
ROW = "coevolve"  # in `tools_kwargs` of a row: its environment, and its task as JSON


class CoevolveTool(BaseTool):  # type: ignore[misc]
    """A tool of the environment."""

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], agent_data: Any, **_: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        wrong = misfit(self.name, parameters)
        if wrong:
            return ToolResponse(text=f"error: {wrong}"), 0.0, {}
        requests = agent_data.extra_fields.setdefault(REQUESTS, [])
        requests.append(replay.call(self.name, parameters))
        turn = await asyncio.to_thread(_answer, agent_data.tools_kwargs[ROW], list(requests))
        return ToolResponse(text=replay.told(turn)), 0.0, {}


def _answer(row: dict[str, str], requests: list[Request]) -> Observation:
    return replay.last_answer(*replay.of_row(row), requests)


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any], **_: Any
) -> float:
    """The environment's score of a rollout, for verl's `custom_reward_function`."""
    requests = [*extra_info.get(REQUESTS, ()), replay.say(solution_str)]
    return replay.score(*replay.of_row(extra_info["tools_kwargs"][ROW]), requests).reward

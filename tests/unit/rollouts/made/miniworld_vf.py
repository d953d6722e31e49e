"""A taskset of verifiers with the tasks of miniworld. `verifiers_run.sh` plays it, in verifiers' own environment."""

import json
from pathlib import Path

import verifiers.v1 as vf
from miniworld_tools import MiniworldToolset

from coevolve.core.io import read_tasks
from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make

KNOWN = Path(__file__).parent / "tasks.jsonl"


def by_id() -> dict[str, Task]:
    return {task.task_id: task for task in read_tasks(KNOWN)}


class MiniworldData(vf.TaskData):
    """The base class has all fields: ``id`` is the task's id."""


class MiniworldTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class MiniworldTask(vf.Task[MiniworldData, vf.State, MiniworldTaskConfig]):
    @classmethod
    def toolsets(cls, config: MiniworldTaskConfig) -> list[vf.Toolset]:
        return [MiniworldToolset(config.tools)]

    @vf.reward(weight=1.0)
    async def solved(self, trace: vf.Trace) -> float:
        """The environment's score of the calls that the agent made."""
        session = make("miniworld").open()
        session.reset(by_id()[self.data.id])
        for message in trace.assistant_messages:
            for call in message.tool_calls or []:
                session.step(ToolCall(call.name, json.loads(call.arguments)))
        return float(session.score().reward)


class MiniworldConfig(vf.TasksetConfig):
    task: MiniworldTaskConfig = MiniworldTaskConfig()


class MiniworldTaskset(vf.Taskset[MiniworldTask, MiniworldConfig]):
    def load(self) -> list[MiniworldTask]:
        return [
            MiniworldTask(MiniworldData(id=task.task_id, prompt=task.turns[0]), self.config.task)
            for task in by_id().values()
        ]


__all__ = ["MiniworldTaskset"]

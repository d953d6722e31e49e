"""The tools of miniworld as a server of verifiers, a process for each rollout. `miniworld_vf.py` names it."""

from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from coevolve.core.io import read_tasks
from coevolve.environments.registry import make
from coevolve.environments.trl import environment_factory

KNOWN = Path(__file__).parent / "tasks.jsonl"


class MiniworldToolset(vf.Toolset[vf.ToolsetConfig, vf.State]):
    TOOL_PREFIX = None

    async def setup_task(self, task: Any) -> None:
        data = getattr(task, "data", task)
        self._tools = environment_factory("miniworld")()
        self._tools.reset(task_id=data.id)

    def register(self, mcp: Any) -> None:
        """Offer the tools of the known tasks alone, so that traces stay small."""
        used = {name for task in read_tasks(KNOWN) for name in task.tools}
        for tool in make("miniworld").tools():
            function = tool["function"]
            if function["name"] in used:
                method = getattr(self._tools, function["name"])
                mcp.add_tool(method, name=function["name"], description=function["description"])


if __name__ == "__main__":
    MiniworldToolset.run()

"""Train with TRL on the tasks that `coevolve env serve` serves: a class for GRPOTrainer's `environment_factory`.

TRL gives the model each public method as a tool, with the types of its signature and the text of its docstring. This file makes
a method of every tool that the server lists.

    coevolve env serve miniworld --tasks accepted.jsonl     # in another terminal
    python examples/trl_openenv.py                          # with openenv and trl installed; prints the number of tasks
"""

import inspect

import httpx
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.mcp_client import MCPToolClient

URL, SPLIT = "http://127.0.0.1:8000", "tasks"  # coevolve env serve miniworld --tasks accepted.jsonl
TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class Miniworld:
    """An episode. TRL calls `reset` with a row of the dataset, then the tools, then `get_reward`."""

    def __init__(self):
        self._client = MCPToolClient(URL).sync()

    def reset(self, index, **row):
        self._reward = 0.0
        self._client.reset(split=SPLIT, index=index, rewards="change")

    def get_reward(self):
        return self._reward


def method(tool):
    def call(self, **arguments):
        given = {name: value for name, value in arguments.items() if value is not None}
        result = self._client.step(CallToolAction(tool_name=tool.name, arguments=given))
        self._reward += result.reward
        answer = result.observation
        return str(answer.result) if answer.error is None else f"error: {answer.error.message}"

    schemas, required = tool.input_schema.get("properties", {}), tool.input_schema.get("required", [])
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    types = {
        name: TYPES.get(schemas[name].get("type"), str)
        for name in sorted(schemas, key=lambda name: name not in required)
    }
    parameters = [
        inspect.Parameter(name, kind, default=empty if name in required else None, annotation=type_)
        for name, type_ in types.items()
    ]
    call.__signature__ = inspect.Signature([inspect.Parameter("self", kind), *parameters])
    call.__annotations__ = types
    lines = [f"    {name}: {schemas[name].get('description', name)}" for name in types]
    call.__name__, call.__doc__ = tool.name, "\n".join([tool.description, "", "Args:", *lines])
    return call


for tool in MCPToolClient(URL).sync().list_tools():
    setattr(Miniworld, tool.name, method(tool))
tasks = httpx.post(f"{URL}/miniworld/tasks", json={"split": SPLIT}).json()["tasks"]
rows = [{"prompt": [{"role": "user", "content": task["instruction"]}], "index": n} for n, task in enumerate(tasks)]
print(f"{len(rows)} tasks with {Miniworld.__name__}; next: GRPOTrainer(..., environment_factory=Miniworld)")

"""Records as JSON for the pipe to a worker. Standard library only: workers run in environments without our packages."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from coevolve.core.task import Provenance, Task, ToolCall

BEGIN = "begin_reply and step"  # a request to a session: the call is the first of a reply
SAY = (
    "say"  # the tool of a server that takes the agent's words: the servers here offer it, and OpenEnv's client calls it
)
SAY_TOOL = {
    "name": SAY,
    "description": "Say something to the user, as when a request is done: brings the next request, or the end",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def dumps(value: Any) -> str:
    """JSON of a value that may hold dataclasses."""
    return json.dumps(value, default=_members)


def _members(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return {one.name: getattr(value, one.name) for one in fields(value)}


def record(value: Mapping[str, Any]) -> Task | ToolCall:
    """The task or the call that ``value`` holds."""
    return to_task(value) if "task_id" in value else ToolCall(**value)


def to_task(value: Mapping[str, Any]) -> Task:
    reference = [[ToolCall(**call) for call in turn] for turn in value["reference"]]
    provenance = Provenance(**value["provenance"]) if value["provenance"] else None
    return Task(**{**value, "reference": reference, "provenance": provenance})

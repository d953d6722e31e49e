"""Records as JSON for the pipe to a worker. Standard library only: workers run in environments without our packages."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from coevolve.core.task import Observation, Provenance, Task, ToolCall

Message = dict[str, Any]


def of_task(task: Task) -> Message:
    """A task as a JSON object. It shares the task's values, because the caller only writes it."""
    reference = [[{"name": call.name, "arguments": call.arguments} for call in turn] for turn in task.reference]
    provenance = asdict(task.provenance) if task.provenance else None
    return {
        **{one.name: getattr(task, one.name) for one in fields(task)},
        "reference": reference,
        "provenance": provenance,
    }


def to_task(value: Mapping[str, Any]) -> Task:
    reference = [[ToolCall(**call) for call in turn] for turn in value["reference"]]
    provenance = Provenance(**value["provenance"]) if value["provenance"] else None
    return Task(**{**value, "reference": reference, "provenance": provenance})


def of_turn(turn: Observation) -> Message:
    return {key: value for key, value in asdict(turn).items() if value not in (None, False)}

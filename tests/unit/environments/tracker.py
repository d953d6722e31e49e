"""A tracker whose tools have schemas as FastMCP and Pydantic write them, and refuse what does not fit."""

from collections.abc import Sequence
from typing import Any

from jsonschema import Draft202012Validator

from coevolve.core.task import Observation, ToolCall
from tests.unit.environments.open_tools import OpenSession, OpenTools

DEFS = {
    "State": {"type": "string", "enum": ["open", "closed"]},
    "Request": {"type": "object", "properties": {"ticket": {"type": "integer"}}, "required": ["ticket"]},
}
VALUES: dict[str, dict[str, Any]] = {  # by tool: the schema of the value that it takes beside a ticket
    "colour": {"type": "string", "enum": ["red", "blue"]},
    "state": {"$ref": "#/$defs/State"},
    "level": {"anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}], "default": None},
    "column": {"allOf": [{"$ref": "#/$defs/State"}], "default": "open"},
    "size": {"oneOf": [{"const": "s"}, {"const": "l"}]},
    "stars": {"type": "integer", "minimum": 100, "maximum": 105},
    "request": {"$ref": "#/$defs/Request"},
}


def schema(name: str, value: Any) -> dict[str, Any]:
    properties = {"ticket": {"type": "integer"}, name: value}
    return {"type": "object", "properties": properties, "required": list(properties), "$defs": DEFS}


class Tracker(OpenTools):
    name = "tracker"

    def __init__(self, more: Sequence[tuple[str, Any]] = ()) -> None:
        known = [ToolCall("colour", {"ticket": ticket, "colour": "red"}) for ticket in (3, 4)]
        super().__init__({name: schema(name, value) for name, value in [*VALUES.items(), *more]}, known)

    def open(self) -> "TrackerSession":
        return TrackerSession(self)


class TrackerSession(OpenSession):
    def step(self, call: ToolCall) -> Observation:
        if call.name in VALUES and not Draft202012Validator(schema(call.name, VALUES[call.name])).is_valid(
            call.arguments
        ):
            return Observation("tool", f"{call.name} cannot be so", error=True)
        return super().step(call)


class Secret(Tracker):
    """Its tool ``unlock`` takes a word that nothing says, and the schema of its tool ``lost`` leads nowhere."""

    def __init__(self) -> None:
        super().__init__([("lost", {"$ref": "#/$defs/Lost"}), ("unlock", {"type": "string"})])

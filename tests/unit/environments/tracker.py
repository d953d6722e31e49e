"""A tracker whose tools have schemas as FastMCP and Pydantic write them."""

from collections.abc import Sequence
from typing import Any

from coevolve.core.task import ToolCall
from tests.unit.environments.open_tools import OpenTools

DEFS = {"State": {"type": "string", "enum": ["open", "closed"]}}
VALUES: dict[str, dict[str, Any]] = {  # by tool: the schema of the value that it takes beside a ticket
    "colour": {"type": "string", "enum": ["red", "blue"]},
    "state": {"$ref": "#/$defs/State"},
    "column": {"allOf": [{"$ref": "#/$defs/State"}], "default": "open"},
}


def schema(name: str, value: Any) -> dict[str, Any]:
    properties = {"ticket": {"type": "integer"}, name: value}
    return {"type": "object", "properties": properties, "required": list(properties), "$defs": DEFS}


class Tracker(OpenTools):
    name = "tracker"

    def __init__(self, more: Sequence[tuple[str, Any]] = ()) -> None:
        known = [ToolCall("colour", {"ticket": ticket, "colour": "red"}) for ticket in (3, 4)]
        super().__init__({name: schema(name, value) for name, value in [*VALUES.items(), *more]}, known)


class Secret(Tracker):
    """Its tool ``unlock`` takes a word that nothing says, and the schema of its tool ``lost`` leads nowhere."""

    def __init__(self) -> None:
        super().__init__([("lost", {"$ref": "#/$defs/Lost"}), ("unlock", {"type": "string"})])

"""A tracker whose tools have schemas as FastMCP and Pydantic write them. Each needs a ticket that exists and one value of its own."""

from collections.abc import Sequence
from typing import Any

from coevolve.core.task import Observation, ToolCall
from tests.unit.environments.open_tools import OpenSession, OpenTools

STATE = {"type": "string", "enum": ["open", "closed"]}
REQUEST = {"type": "object", "properties": {"ticket": {"type": "integer"}}, "required": ["ticket"]}
VALUES: dict[str, tuple[dict[str, Any], Any]] = {  # by tool: the schema of its value, and the values that it takes
    "colour": ({"type": "string", "enum": ["red", "blue"]}, ("red", "blue")),
    "state": ({"$ref": "#/$defs/State"}, ("open", "closed")),
    "level": ({"anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}], "default": None}, ("low", "high")),
    "column": ({"allOf": [{"$ref": "#/$defs/State"}], "default": "open"}, ("open", "closed")),
    "size": ({"oneOf": [{"const": "s"}, {"const": "l"}]}, ("s", "l")),
    "stars": ({"type": "integer", "minimum": 100, "maximum": 105}, range(100, 106)),
    "request": ({"$ref": "#/$defs/Request"}, [{"ticket": number} for number in (3, 4)]),
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    properties = {**({} if name == "request" else {"ticket": {"type": "integer"}}), name: VALUES[name][0]}
    defs = {"State": STATE, "Request": REQUEST}
    return {"type": "object", "properties": properties, "required": list(properties), "$defs": defs}


class Tracker(OpenTools):
    name = "tracker"
    fingerprint = "tracker-1"

    def __init__(self) -> None:
        known = [ToolCall("colour", {"ticket": ticket, "colour": "red"}) for ticket in (3, 4)]
        super().__init__({name: schema(name) for name in VALUES}, known)

    def open(self) -> "TrackerSession":
        return TrackerSession(self)


class TrackerSession(OpenSession):
    def step(self, call: ToolCall) -> Observation:
        if call.name in VALUES and call.arguments.get(call.name) not in VALUES[call.name][1]:
            return Observation("tool", f"{call.name} cannot be so", error=True)
        if call.arguments.get("ticket", 3) not in (3, 4):
            return Observation("tool", "there is no such ticket", error=True)
        return super().step(call)


class Secret(Tracker):
    """Its tool ``unlock`` takes a word that nothing says, its tool ``lost`` has a schema that leads nowhere."""

    def tools(self) -> Sequence[dict[str, Any]]:
        word = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
        lost = {"properties": {"x": {"$ref": "#/$defs/Lost"}}, "required": ["x"]}
        added = [("lost", lost), ("unlock", word)]
        functions = [{"name": name, "description": name, "parameters": one} for name, one in added]
        return [*super().tools(), *({"type": "function", "function": function} for function in functions)]

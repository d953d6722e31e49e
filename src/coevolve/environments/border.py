"""The form in which a call reaches a session, whoever makes it: an agent, a reference, an explorer or another trainer."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coevolve.core.task import ToolCall

if TYPE_CHECKING:
    from coevolve.environments.tool_schema import ToolSchema

CONSTANT = frozenset({str, int, bool, type(None)})  # types of values that no session can change


def crossed(call: ToolCall, tools: Iterable[Mapping[str, Any]] | None) -> ToolCall:
    """``call`` for a session that offers ``tools``, as a copy that the session may change.

    JSON has one type of numbers, and many clients write 5.0 for 5. So a whole number becomes an int where the tool's schema
    asks for an integer, and -0.0 becomes 0.0.
    """
    if CONSTANT.issuperset(map(type, call.arguments.values())):
        return ToolCall(call.name, dict(call.arguments))
    # not at the top: a worker may have nothing but its environment's packages
    from coevolve.environments.tool_schema import tool_schema

    functions = (tool["function"] for tool in tools or ())
    schema = tool_schema(next((one for one in functions if one["name"] == call.name), {}))
    return ToolCall(call.name, _typed(call.arguments, None, schema))


def _typed(value: Any, part: Any, schema: "ToolSchema") -> Any:
    """A copy of ``value`` in the types of ``part``, a part of ``schema`` (None: the whole)."""
    if isinstance(value, dict):
        flat = schema.flat(part)
        parts, others = flat["properties"], flat.get("additionalProperties", True)
        return {key: _typed(one, parts.get(key, others), schema) for key, one in value.items()}
    if isinstance(value, list | tuple):
        items = schema.flat(part).get("items", True)
        return [_typed(one, items, schema) for one in value]
    if not isinstance(value, float) or not value.is_integer():
        return value
    return int(value) if schema.flat(part).get("type") == "integer" else value + 0.0

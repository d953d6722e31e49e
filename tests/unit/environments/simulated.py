"""Types of arguments, and one environment for any simulator."""

import dataclasses
import typing
from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from typing import Any, NewType, TypeAlias

import typing_extensions
from pydantic import BaseModel, Field

from coevolve.core.task import ToolCall
from coevolve.environments.environment import Session
from coevolve.environments.methods import MethodEnvironment

JSON = Any
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Mood(StrEnum):
    GOOD = "good"


class Rate(Enum):
    HALF = 0.5
    WHOLE = 1.0


@dataclasses.dataclass(frozen=True)
class Place:
    """Where it is."""

    row: int
    height: float = 0.0


@dataclasses.dataclass
class Basket:
    places: list[Place] = dataclasses.field(default_factory=list)
    note: str | None = None


class Stop(typing.TypedDict):
    town: str
    minutes: typing.NotRequired[int]


class Tour(typing_extensions.TypedDict):
    stops: list[Stop]


class Order(BaseModel):
    number: int = Field(ge=1, description="its number")
    places: list[Place] = []


Ticket = NewType("Ticket", int)
Table: TypeAlias = dict[str, list[int]]


def environment(simulator: Any, *calls: ToolCall, world: Mapping[str, JSON] | None = None) -> MethodEnvironment:
    """An environment with one task in each split."""

    class Plain(MethodEnvironment):
        name = "plain"

        def questions(self, split: str) -> list[tuple[str, dict[str, JSON], list[ToolCall]]]:
            return [("do it", dict(world or {}), list(calls))]

    Plain.simulator = simulator
    return Plain()


def begun(simulator: Any, **world: JSON) -> Session:
    made = environment(simulator, world=world)
    session = made.open()
    session.reset(made.tasks("seed")[0])
    return session


def said(session: Session, tool: str, **arguments: JSON) -> str:
    turn = session.step(ToolCall(tool, arguments))
    return f"error: {turn.content}" if turn.error else turn.content


def shown(simulator: Any) -> dict[str, JSON]:
    """Tool → the properties of its schema."""
    functions = [one["function"] for one in environment(simulator).tools()]
    return {one["name"]: inlined(one["parameters"])["properties"] for one in functions}


def inlined(schema: JSON, definitions: Mapping[str, JSON] | None = None) -> JSON:
    """A schema without references and titles, and without the word that records take no other keys."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if isinstance(schema, list):
        return [inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    target = definitions.get(schema.get("$ref", "").removeprefix("#/$defs/"), {})
    return {
        key: inlined(one, definitions)
        for key, one in {**target, **schema}.items()
        if key not in ("$ref", "$defs")
        and not (key == "title" and isinstance(one, str))
        and (key, one) != ("additionalProperties", False)
    }

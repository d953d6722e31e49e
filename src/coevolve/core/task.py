"""Tasks, and the messages between an agent and a world, as plain data.

Identity is content: ``task_id`` is a hash of environment, world, instruction and reference, so equal tasks have equal
ids. `misfit` is the rule for an agent's calls, the same for every reader and every environment. Standard library only, for workers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from coevolve.core.hashing import content_hash
from coevolve.core.untrusted import DEPTH

SCHEMA_VERSION: Final = 1
DONE: Final = "done"  # the message with which a reference ends a turn
SchemaVersion = Literal[1]  # the version that this code reads
CHARACTERS = 100_000  # most characters of a call's name and arguments as JSON
DEEP = f"arguments are nested deeper than {DEPTH} levels"
_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool's name with JSON arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """An environment's answer: an observation (role ``tool``) or a message (role ``user``).

    ``tools`` are OpenAI function schemas, None if unchanged. ``error`` marks a call that the environment refused.
    ``done`` ends the episode.
    """

    role: str
    content: str
    tools: list[dict[str, Any]] | None = None
    done: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call with its result. ``ok``: the environment knows the tool and accepted the arguments."""

    name: str
    arguments: dict[str, Any]
    ok: bool
    observation: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """A reward in [0, 1] and the named checks behind it."""

    reward: float
    checks: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a synthesized task, which leads back to the failed trajectories."""

    iteration: int
    signal_ids: list[str]
    exploration_id: str
    parent_task_id: str | None = None
    pass_rate: float | None = None
    prompt_version: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task. ``turns`` are the user's messages, ``reference`` holds the tool calls of each turn.

    From ``world`` the environment makes the start state. Create tasks with ``Task.create``.
    """

    task_id: str
    environment: str
    split: str
    turns: list[str]
    world: dict[str, Any]
    reference: list[list[ToolCall]]
    tags: list[str] = field(default_factory=list)
    provenance: Provenance | None = None
    schema_version: SchemaVersion = SCHEMA_VERSION

    def __hash__(self) -> int:
        return hash(self.task_id)  # worlds and calls have no hash; unequal tasks may share an id

    @property
    def content_id(self) -> str:
        """The hash of the content, which the task's id must equal."""
        return task_id_of(self.environment, self.world, self.turns, self.reference)

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the reference, turn by turn."""
        return [call for turn in self.reference for call in turn]

    @property
    def positions(self) -> list[tuple[int, int]]:
        """The position (turn, call) of each of ``calls`` in the reference."""
        return [(turn, row) for turn, calls in enumerate(self.reference) for row in range(len(calls))]

    @property
    def tools(self) -> list[str]:
        """The different tools of the reference, in the order of their first calls."""
        return list(dict.fromkeys(call.name for call in self.calls))

    @property
    def family(self) -> str:
        """The task's first tag; empty without tags."""
        return self.tags[0] if self.tags else ""

    @staticmethod
    def create(
        environment: str,
        split: str,
        turns: Sequence[str],
        world: Mapping[str, Any],
        reference: Sequence[Sequence[ToolCall]],
        tags: Sequence[str] = (),
        provenance: Provenance | None = None,
    ) -> "Task":
        calls = [[ToolCall(c.name, c.arguments) for c in turn] for turn in reference]
        return Task(
            task_id_of(environment, world, turns, calls),
            environment,
            split,
            list(turns),
            dict(world),
            calls,
            list(tags),
            provenance,
        )


def task_id_of(
    environment: str, world: Mapping[str, Any], turns: Sequence[str], reference: Sequence[Sequence[ToolCall]]
) -> str:
    """Content hash of a task. Split, tags and provenance do not count."""
    calls = [[[c.name, c.arguments] for c in turn] for turn in reference]
    return content_hash([environment, dict(world), list(turns), calls])


def misfit(name: str, arguments: Any) -> str:
    """Why name and arguments are not a valid call, in words for the agent; empty if they are.

    A call is a name and JSON arguments that every file and pipe of a run can hold: finite numbers, no lone surrogates,
    limited nesting and length.
    """
    try:
        text = _written([name, arguments])
        text.encode()
    except RecursionError:
        return DEEP
    except UnicodeEncodeError:
        return "a text holds half of a character (a lone surrogate)"
    except (TypeError, ValueError):
        return "arguments must be JSON, with finite numbers of not too many digits"
    if text.count("[") + text.count("{") > DEPTH and _deeper(arguments):
        return DEEP
    return f"a call is longer than {CHARACTERS} characters" if len(text) > CHARACTERS else ""


def _deeper(arguments: Any) -> bool:
    """Whether ``arguments`` nest deeper than ``DEPTH``. Works level by level, because recursion could exhaust the stack."""
    level = [arguments]
    for _ in range(DEPTH + 1):
        level = [value for value in level if isinstance(value, dict | list | tuple)]
        if not level:
            return False
        level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return True


def readable(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a person writes it, such as find_mail(subject="repair")."""
    return f"{name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in arguments.items())})"

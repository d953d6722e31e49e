"""What flows between the stages. Plain data: this module imports nothing of ours.

Identity is content: ``task_id`` is a hash of environment, world, instruction and reference,
so that the same task found twice is one task.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1
SUCCESS_THRESHOLD = 0.5


def is_success(score: float) -> bool:
    """The only definition of success (CoEvolve: a score of at least 0.5)."""
    return score >= SUCCESS_THRESHOLD


def content_hash(value: Any, length: int = 16) -> str:
    """Hash of a JSON value: independent of key order, ``length`` hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call by tool name, with JSON arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What an environment answers: an observation (role ``tool``) or a message (role ``user``).

    ``tools`` are OpenAI function schemas, None meaning unchanged. ``error`` marks a call that the
    environment refused; ``done`` ends the episode.
    """

    role: str
    content: str
    tools: list[dict[str, Any]] | None = None
    done: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """Reward in [0, 1] and the named checks that it came from."""

    reward: float
    checks: dict[str, bool] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        return is_success(self.reward)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a synthesized task comes from; enough to walk back to the failed trajectories."""

    iteration: int
    signal_ids: list[str]
    exploration_id: str
    parent_task_id: str | None = None
    pass_rate: float | None = None
    prompt_version: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task. ``turns`` are the user's messages, ``reference`` holds the tool calls of each turn.

    ``world`` is what the environment needs to set the start state. Make one with ``Task.create``.
    """

    task_id: str
    environment: str
    split: str
    turns: list[str]
    world: dict[str, Any]
    reference: list[list[ToolCall]]
    tags: list[str] = field(default_factory=list)
    provenance: Provenance | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def calls(self) -> list[ToolCall]:
        """The reference's calls, of all turns in order."""
        return [call for turn in self.reference for call in turn]

    @property
    def tools(self) -> list[str]:
        """The tools that the reference calls, each once, in the order of their first calls."""
        return list(dict.fromkeys(call.name for call in self.calls))

    @property
    def family(self) -> str:
        """The kind of task that it is, its first tag; empty if it has none."""
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
    """Content hash of what makes a task the task it is: split, tags and provenance do not count."""
    calls = [[[c.name, c.arguments] for c in turn] for turn in reference]
    return content_hash([environment, dict(world), list(turns), calls])


class StopReason(StrEnum):
    """Why an episode ended."""

    DONE = "done"  # the environment said so
    MAX_TURNS = "max_turns"  # the limit on the agent's turns
    MAX_TOKENS = "max_tokens"  # the limit on tokens of the episode or of one reply, or the model's context
    TIMEOUT = "timeout"  # the limit on wall time
    INVALID = "invalid"  # too many replies in a row that no parser could read
    ENVIRONMENT_FAILED = "environment_failed"  # the environment itself broke; not the agent's failure


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call as it was made. ``ok``: the environment knew the tool and accepted the arguments."""

    name: str
    arguments: dict[str, Any]
    ok: bool
    observation: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode. ``group`` numbers the K attempts at one task in one training step together.

    ``messages`` are OpenAI chat messages. ``tokens`` holds, per turn of the agent,
    how many tokens it generated.
    """

    trajectory_id: str
    task_id: str
    iteration: int
    step: int
    group: int
    sample: int
    messages: list[dict[str, Any]]
    calls: list[CallOutcome]
    score: float
    stop_reason: StopReason
    tokens: list[int] = field(default_factory=list)
    checks: dict[str, bool] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def success(self) -> bool:
        return is_success(self.score)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One visit of a task in one training step; ``score`` is the mean of its group."""

    task_id: str
    iteration: int
    step: int
    score: float
    size: int = 1
    successes: int = 0
    schema_version: int = SCHEMA_VERSION


class SignalKind(StrEnum):
    FORGETTING = "forgetting"
    BOUNDARY = "boundary"
    RARE = "rare"


@dataclass(frozen=True, slots=True)
class Signal:
    """A weakness, with the numbers that made it fire and the trajectories that show it.

    Forgetting and boundary signals name a task; rare signals name a pattern of one or two tools.
    """

    signal_id: str
    kind: SignalKind
    iteration: int
    task_id: str | None
    pattern: list[str] | None
    evidence: dict[str, Any]
    trajectory_ids: list[str]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was done in the real environment around some signals.

    ``context`` is the reflection that guided it, ``calls`` are those made, with observations;
    ``world`` and ``task_id`` say where it started.
    """

    exploration_id: str
    environment: str
    iteration: int
    signal_ids: list[str]
    task_id: str | None
    world: dict[str, Any]
    context: dict[str, Any]
    calls: list[CallOutcome]
    explorer: str
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesized task before the environment has judged it.

    ``asks`` are the positions (turn, call) of the reference's calls that the instruction asks for.
    """

    candidate_id: str
    task: Task
    asks: list[list[int]]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Gate:
    """One check of a candidate: ``passed`` is None where an earlier gate made it pointless."""

    name: str
    passed: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All gates of one candidate. ``task_id`` is None where the candidate could not be read."""

    candidate_id: str
    task_id: str | None
    accepted: bool
    gates: list[Gate]
    pass_rate: float | None = None
    schema_version: int = SCHEMA_VERSION

"""What flows between the stages, all of it plain data."""

from dataclasses import dataclass, field
from typing import Any

from coevolve.core.task import SCHEMA_VERSION, CallOutcome, Task


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


@dataclass(frozen=True, slots=True)
class Pair:
    """Two episodes of one task, by ids of their trajectories: ``chosen`` is to become likelier than ``rejected``.

    ``kind`` says whose they are; ``closeness`` how close the rejected one comes to what is right, by `pairs.rank`, and
    ``chosen_closeness`` how close the chosen one does, which is 1 where it is right.
    """

    pair_id: str
    task_id: str
    iteration: int
    kind: str
    chosen: str
    rejected: str
    closeness: float
    chosen_closeness: float = 1.0
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Signal:
    """A weakness, with the numbers that made it fire and the trajectories that show it.

    ``kind`` is a name in ``coevolve.stages.signals.kinds``. It speaks of a task or of a pattern of tools. ``strength`` says
    how weak the agent is there, in [0, 1].
    """

    signal_id: str
    kind: str
    iteration: int
    task_id: str | None
    pattern: list[str] | None
    strength: float
    evidence: dict[str, Any]
    trajectory_ids: list[str]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Generation:
    """What a generator wrote: ``text``, a variation of the task ``seed``, in answer to ``prompt``.

    ``goals`` and ``ask`` are what could be read of it, None if nothing could. ``control``: it is the generator's of before any training,
    and only measured. ``outcome`` is ACCEPTED, or why no task came of it; empty as long as that is not known. The agent solved ``task_id`` in ``successes`` of ``episodes``.
    """

    generation_id: str
    iteration: int
    seed: str
    prompt: str
    text: str
    goals: list[str] | None
    ask: str | None
    control: bool
    outcome: str = ""
    task_id: str | None = None
    successes: int = 0
    episodes: int = 0
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a model made of a weakness, before it explored around it; ``ideas`` are what it meant to try."""

    what_failed: str
    where: str
    why: str
    ideas: list[str]


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was done in the real environment around some signals.

    ``kind`` is the signals' (None: there was none), ``focus`` the tools that they are about, and ``goals`` those that the
    explorer was to use. ``calls`` are those made, with observations; ``world`` and ``task_id`` say where it started.
    ``reflection`` and the versions of ``prompts`` are there where a model explored.
    """

    exploration_id: str
    environment: str
    iteration: int
    signal_ids: list[str]
    task_id: str | None
    world: dict[str, Any]
    kind: str | None
    focus: list[str]
    goals: list[str]
    calls: list[CallOutcome]
    explorer: str
    reflection: Reflection | None = None
    prompts: list[str] = field(default_factory=list)
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

    @property
    def refusal(self) -> Gate | None:
        """The gate that it failed; None if it failed none."""
        return next((gate for gate in self.gates if gate.passed is False), None)

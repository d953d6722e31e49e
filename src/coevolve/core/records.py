"""The records that flow between the stages. All of them are plain data."""

from dataclasses import dataclass, field
from typing import Any

from coevolve.core.task import SCHEMA_VERSION, CallOutcome, SchemaVersion, Task


@dataclass(frozen=True, slots=True)
class Attempt:
    """One visit of a task in one training step; ``score`` is the mean of its group.

    ``size`` is the number of episodes that count. It is 0 if the environment failed in all of them.
    """

    task_id: str
    iteration: int
    step: int
    score: float
    size: int = 1
    successes: int = 0
    schema_version: SchemaVersion = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Pair:
    """Two episodes of one task, by trajectory ids: training makes ``chosen`` likelier than ``rejected``.

    ``kind`` names the players of the two. ``closeness`` measures how close the rejected episode comes to the reference, by
    `pairs.rank`. ``chosen_closeness`` is the same for the chosen episode: 1 if it is right.
    """

    pair_id: str
    task_id: str
    iteration: int
    kind: str
    chosen: str
    rejected: str
    closeness: float
    chosen_closeness: float = 1.0
    schema_version: SchemaVersion = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Signal:
    """A weakness of the agent, with the numbers that made the signal fire and the trajectories that show it.

    ``kind`` is a name in ``coevolve.stages.signals.extract``. A signal is about a task or about a pattern of tools.
    ``strength`` says how weak the agent is there, in [0, 1].
    """

    signal_id: str
    kind: str
    iteration: int
    task_id: str | None
    pattern: list[str] | None
    strength: float
    evidence: dict[str, Any]
    trajectory_ids: list[str]
    schema_version: SchemaVersion = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Generation:
    """A spec of the task generator: ``text``, a variation of the task ``seed``, in answer to ``prompt``.

    ``goals`` and ``ask`` are parsed from the text, and None if it cannot be parsed. ``outcome`` is ACCEPTED or the reason
    why the spec became no task, and empty until that is known. The agent solved ``task_id`` in ``successes`` of ``episodes``.
    """

    generation_id: str
    iteration: int
    seed: str
    prompt: str
    text: str
    goals: list[str] | None
    ask: str | None
    outcome: str = ""
    task_id: str | None = None
    successes: int = 0
    episodes: int = 0
    schema_version: SchemaVersion = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Reflection:
    """A model's analysis of a weakness, before it explores. ``ideas`` are its plans for exploration."""

    what_failed: str
    where: str
    why: str
    ideas: list[str]


@dataclass(frozen=True, slots=True)
class Exploration:
    """An explorer's calls in the real environment, usually around a signal.

    ``kind`` is the kind of the signal (None without a signal), ``focus`` the tools that the signal is about, and
    ``goals`` the tools to use. ``calls`` hold the observations. ``world`` and ``task_id`` say where the exploration
    started. Explorations by a model also have a ``reflection`` and the versions of their ``prompts``.
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
    schema_version: SchemaVersion = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesized task that the environment has not judged yet.

    ``asks`` are the positions (turn, call) in the reference of the calls that the instruction asks for.
    """

    candidate_id: str
    task: Task
    asks: list[list[int]]
    schema_version: SchemaVersion = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Gate:
    """One check of a candidate: passed, failed, or not checked.

    ``passed`` is None if the gate could not check the candidate, with the ``reason``, or if an earlier gate failed,
    without one.
    """

    name: str
    passed: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All gates of one candidate. ``task_id`` is None if the candidate is unreadable."""

    candidate_id: str
    task_id: str | None
    accepted: bool
    gates: list[Gate]
    pass_rate: float | None = None
    schema_version: SchemaVersion = SCHEMA_VERSION

    @property
    def refusal(self) -> Gate | None:
        """The gate that the candidate failed; None if it failed none."""
        return next((gate for gate in self.gates if gate.passed is False), None)

    @property
    def unchecked(self) -> list[Gate]:
        """The gates that could not check an accepted candidate."""
        return [gate for gate in self.gates if gate.passed is None] if self.accepted else []

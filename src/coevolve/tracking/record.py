"""What the files of a project hold about one run of a tracker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevolve.core.champion import ChampionGate
from coevolve.core.trajectories import Trajectory

POLICY = "coevolve-policy"  # names of registered models, whose versions are policies, failure agents and generators
FAILURE = "coevolve-failure"
GENERATOR = "coevolve-generator"


@dataclass(frozen=True, slots=True)
class Model:
    """A version of the registered model ``name``: a pointer to a DVC path and hash, not a copy of the weights.

    ``tasks`` is the number of tasks behind ``figures``: fewer tasks never replace the figures of more.
    """

    name: str
    iteration: int
    path: Path
    figures: Mapping[str, float]
    description: str
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """An episode to read, with the kinds of signals that it set off, or the panel of its task."""

    trajectory: Trajectory
    kinds: Sequence[str] = ()
    panel: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """The costly parts of a run, which are read only if a tracker lacks the run.

    ``tasks`` are files whose tasks become records of a dataset, and ``sources`` leads from tasks to failed trajectories.
    """

    model: Model | None = None
    traces: Sequence[Trace] = ()
    tasks: Sequence[Path] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    challenge: ChampionGate | None = None


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """One run: the stage and iteration ``key``, and a hash of the ``files`` that it mirrors; the two identify it.

    ``metrics`` are figures by step. ``datasets`` are files and their contexts. ``children`` are the runs of the stages.
    """

    key: str
    files: str
    params: Mapping[str, Any]
    metrics: Sequence[tuple[int, Mapping[str, float]]]
    details: Callable[[], Details]
    datasets: Sequence[tuple[Path, str]] = ()
    artifacts: Sequence[Path] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    children: Sequence["TrackedRun"] = ()

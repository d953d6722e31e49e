"""What the files of a project hold about one run of a tracker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

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
class TrackedRun:
    """The content of one run.

    ``metrics`` are figures by step, and ``seconds`` the time that the stage took, if it ran on this machine. ``datasets`` are
    files and their contexts. ``traces`` are episodes to read, with tags. The tasks of the files ``tasks`` become records of a
    dataset, and ``sources`` leads from tasks to failed trajectories. ``children`` are the runs of the stages, and ``challenge``
    is that of the best policy for the alias.
    """

    metrics: Sequence[tuple[int, Mapping[str, float]]]
    params: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: Sequence[tuple[Path, str]] = ()
    artifacts: Sequence[Path] = ()
    model: Model | None = None
    traces: Sequence[tuple[Trajectory, Mapping[str, str]]] = ()
    tasks: Sequence[Path] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    children: Sequence["Result"] = ()
    challenge: ChampionGate | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The files of a finished stage, such as ``train/0``, with a hash of them. ``read`` returns None if there is nothing to log.

    The two names identify a run of a tracker, and only a tracker that lacks the run reads the files.
    """

    key: str
    files: str
    read: Callable[[], TrackedRun | None]


class Tracker(Protocol):
    """A tracker gets the content of runs. One that shows no training before its end takes ``live`` and ``leave`` from here."""

    name: str

    def has(self, key: str, files: str) -> bool:
        """Whether the tracker has the whole run."""

    def log(self, key: str, files: str, run: TrackedRun) -> None:
        """Log what the tracker lacks of ``run``, also after a process that ended in the middle of it."""

    def live(self, key: str, step: int, figures: Mapping[str, float]) -> None:
        """Log a step of a training that has no files yet."""
        return

    def leave(self, key: str, status: str) -> None:
        """End the live run of a stage that failed."""
        return


def signal_tags(kinds: Sequence[str]) -> dict[str, str]:
    """The tags of an episode that set off signals of ``kinds``."""
    return {"signal": ", ".join(kinds)} if kinds else {}

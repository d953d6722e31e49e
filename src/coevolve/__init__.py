"""coevolve: train tool-using agents in a closed loop that finds their weaknesses and makes new tasks for them.

The names below are the Python API. They keep their meaning between releases, and load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "CoevolveError",
    "FinishedRun",
    "Grown",
    "Signal",
    "Task",
    "ToolCall",
    "Trajectory",
    "Verdict",
    "grow",
    "read_run",
    "register",
    "signals",
    "trl_environment",
    "verify",
]

if TYPE_CHECKING:
    from coevolve.core.errors import CoevolveError
    from coevolve.core.records import Candidate, Signal, Verdict
    from coevolve.core.task import Task, ToolCall
    from coevolve.core.trajectories import Trajectory
    from coevolve.environments.registry import register
    from coevolve.lineage.finished_run import FinishedRun, read_run
    from coevolve.rollouts.find_weaknesses import signals
    from coevolve.rollouts.grow_loop import Grown, grow
    from coevolve.stages.verify.candidates import verify
    from coevolve.trainers.trl_environment import trl_environment
else:  # only names that are listed, for type checkers
    _MODULES = {  # relative, so that no stage depends on them
        "Candidate": ".core.records",
        "CoevolveError": ".core.errors",
        "FinishedRun": ".lineage.finished_run",
        "Grown": ".rollouts.grow_loop",
        "Signal": ".core.records",
        "Task": ".core.task",
        "ToolCall": ".core.task",
        "Trajectory": ".core.trajectories",
        "Verdict": ".core.records",
        "grow": ".rollouts.grow_loop",
        "read_run": ".lineage.finished_run",
        "register": ".environments.registry",
        "signals": ".rollouts.find_weaknesses",
        "trl_environment": ".trainers.trl_environment",
        "verify": ".stages.verify.candidates",
    }

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name], __name__), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

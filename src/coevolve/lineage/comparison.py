"""Compare policies: their parameters and history, their success, and the tasks that a policy lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from coevolve.core.outcomes import Outcome, PanelMetrics, kinds_of, paired_interval, solved
from coevolve.core.section import dotted
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_summary import TASKS
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.report.run_summary import Number, Summary

LEAST = 10  # tasks of a gain that can be sure


@dataclass(frozen=True)
class Side:
    """Policy ``t`` of a run: the run's ``params`` and ``summary``, the policy's outcomes, and the ``seconds`` of its evaluation here.

    ``words`` holds the instruction of each task of the panels, by id, if the run's panels are here. ``world`` is the fingerprint of
    the environment, ``digest`` the hash of the policy.
    """

    name: str
    t: int
    params: Mapping[str, Any]
    summary: Summary
    outcomes: Sequence[Outcome]
    seconds: float | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    world: str = ""
    digest: str = ""

    def solved(self, panel: str) -> dict[str, float]:
        """The success of each task of a panel: 1 or 0 if it was played once."""
        return solved(self.outcomes, panel)

    def seconds_per_success(self) -> float | None:
        """Wall time of the evaluation per successful episode; None without a success, or if it did not run here."""
        successes = sum(one.success for one in self.outcomes)
        return self.seconds / successes if self.seconds is not None and successes else None

    def metrics(self, panel: str) -> PanelMetrics | None:
        """The policy's metrics on a panel; None if it did not play it."""
        return self.summary.policies[self.t].get(panel)


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of a side over the first side, on the tasks that both played: mean and interval, paired by task, over ``kinds`` kinds.

    ``regressions`` are tasks that the first side solves more often.
    """

    panel: str
    tasks: int
    kinds: int
    base: float
    challenger: float
    gain: float
    low: float
    high: float
    regressions: list[str]

    @property
    def sure(self) -> bool:
        """Whether the whole interval lies on one side of zero. Of fewer than LEAST tasks, the bootstrap's interval is too short."""
        return self.tasks >= LEAST and (self.low > 0.0 or self.high < 0.0)


def differences(sides: Sequence[Side]) -> dict[str, list[Any]]:
    """Parameters that differ between sides, by dotted key, and the environment's version and the arithmetic if they differ. The
    value is None if a side lacks the key."""
    machine = [{"version of the environment": side.world, "arithmetic": side.summary.arithmetic} for side in sides]
    flat = [{**dotted(side.params), **more} for side, more in zip(sides, machine, strict=True)]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    found = {key: [one.get(key) for one in flat] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def gains(base: Side, challenger: Side, config: Evaluate) -> list[Gain]:
    """The gain on each panel of which both sides played some of the same tasks."""
    found = []
    for panel in dict.fromkeys(one.panel for one in base.outcomes):
        ours, theirs = base.solved(panel), challenger.solved(panel)
        shared = [task for task in ours if task in theirs]
        if not shared:
            continue
        seed = derive_seed("compare", panel, base.name, challenger.name)
        kinds = kinds_of(one for one in base.outcomes if one.task_id in theirs and one.panel == panel)
        gain, low, high = paired_interval(ours, theirs, config, seed, kinds)
        base_success, success = (fmean(side[task] for task in shared) for side in (ours, theirs))
        lost = [task for task in shared if ours[task] > theirs[task]]
        found.append(Gain(panel, len(shared), len(set(kinds.values())), base_success, success, gain, low, high, lost))
    return found


def partly(base: Side, challenger: Side) -> list[str]:
    """Lines on panels of which the sides did not play the same tasks."""
    lines = []
    for panel in dict.fromkeys(one.panel for one in (*base.outcomes, *challenger.outcomes)):
        ours, theirs = base.solved(panel).keys(), challenger.solved(panel).keys()
        if ours != theirs:
            lines.append(
                f"{panel}: {base.name} played {len(ours)} tasks, {challenger.name} {len(theirs)}, and {len(ours & theirs)} are "
                "the same; the gain is over these, other figures are over all"
            )
    return lines


def history(side: Side) -> dict[str, Number]:
    """The history of a policy: its dataset, and the costs and results of the stages before it."""
    found, t = side.summary, side.t
    names = dict.fromkeys(name for one in found.stages for name in (*one.costs, *one.columns) if name != TASKS)
    return {
        "tasks trained on": found.tasks[t - 1] if t else 0,
        "tasks added by the loop": found.tasks[t - 1] - found.tasks[0] if t else 0,
        **{name: found.total(name, before=t) for name in names},
    }

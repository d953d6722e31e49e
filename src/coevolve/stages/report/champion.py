"""Who is champion: the gate that a policy passes to take the alias, and the reason, written down either way."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.io import read_jsonl
from coevolve.core.params import Evaluate, Params
from coevolve.core.paths import Paths
from coevolve.core.seeding import derive_seed
from coevolve.stages.evaluate import OUTCOMES, Outcome, paired_interval


def champion(params: Params) -> dict[str, Any]:
    """The policy of this run that is best, on the frozen panel ``report.panel``, and every challenge for it."""
    panel, last = params.report.panel, params.iterations[-1].next
    found = [scores(Paths.evaluation(t) / OUTCOMES, panel) for t in range(last + 1)]
    names = [str(Paths.policy(t)) for t in range(last + 1)]
    return {"panel": panel, **contest(found, params.evaluate, params.report.max_regressions, params.seed, names)}


def scores(outcomes: Path, panel: str) -> dict[str, float]:
    """1 or 0 by task of ``panel``, from a file of outcomes."""
    return {one.task_id: float(one.success) for one in read_jsonl(outcomes, Outcome) if one.panel == panel}


def contest(
    found: Sequence[Mapping[str, float]],
    config: Evaluate,
    max_regressions: float,
    seed: int,
    names: Sequence[str],
) -> dict[str, Any]:
    """Each policy in turn challenges the holder; the first holds at the start. ``found``: by policy, 1 or 0 by task.

    It takes the alias if the whole interval of its gain, paired by task, is above 0, and if it fails at most
    ``max_regressions`` of the tasks that the holder solves.
    """
    holder, history = 0, []
    for t in range(1, len(found)):
        base, challenger = found[holder], found[t]
        drawn = derive_seed(seed, "champion", holder, t)
        gain, low, high = paired_interval(base, challenger, config, drawn)
        solved = [task for task, score in base.items() if score and task in challenger]
        lost = sum(not challenger[task] for task in solved)
        share = lost / len(solved) if solved else 0.0
        taken = low > 0.0 and share <= max_regressions
        if taken:
            why = f"{names[t]} takes it from {names[holder]}"
        elif low <= 0.0:
            why = f"{names[holder]} keeps it from {names[t]}, whose gain is not surely positive"
        else:
            why = f"{names[holder]} keeps it from {names[t]}, which lost more than {max_regressions:.0%} of what was solved"
        figures = f"gain {gain:+.3f} ({low:+.3f} to {high:+.3f}), {lost} of {len(solved)} solved tasks lost"
        history.append(
            {"challenger": t, "holder": holder, "gain": gain, "low": low, "high": high, "lost": lost}
            | {"taken": taken, "reason": f"{why}: {figures}"}
        )
        holder = t if taken else holder
    return {"policy": holder, "challenges": history}

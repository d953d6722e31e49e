"""What is said of a generator: what it writes, how its update went, and whether it hits the difficulty that is aimed at."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from coevolve.core.records import Generation
from coevolve.core.stage_summary import SPEC_ENTROPY, SPEC_SAMPLE, SPEC_VALID, StageSummary
from coevolve.core.statistics import evenness
from coevolve.stages.generate.rewards import effective

if TYPE_CHECKING:
    from coevolve.stages.generate.iteration import Generated

Figures = dict[str, int | float | None]
FAR = "divergence of specs"


def summary(t: int, made: "Generated", arithmetic: str) -> StageSummary:
    """Of iteration ``t``: what was written, and the update before it."""
    written = [one for one in made.new if not one.control]
    goals = Counter(goal for one in written for goal in one.goals or ())
    figures: Figures = {
        "generations": len(made.new),
        SPEC_VALID: fmean(one.goals is not None for one in written) if written else None,
        SPEC_ENTROPY: evenness(goals, made.tools),
        "distinct specs": _distinct(written),
        "goals of a spec": fmean([len(one.goals) for one in written if one.goals is not None] or [0]),
        "generations learned from": len(made.weights),
        SPEC_SAMPLE: effective(made.weights),
        FAR: made.figures[-1]["spec_kl"] if made.figures else None,
        "generator steps": len(made.figures),
    }
    plots = {
        "what the generator writes": [SPEC_VALID, SPEC_ENTROPY, "distinct specs"],
        "divergence of specs from the first generator (nats)": [FAR],
        "effective sample of the generator's update": [SPEC_SAMPLE],
    }
    notes = [f"the generator did not learn: {made.reason}"] if made.reason and t else []
    return StageSummary("generate", t, figures, [], ["generations"], plots, notes, arithmetic)


def _distinct(generations: Sequence[Generation]) -> float | None:
    specs = [(tuple(one.goals), one.ask) for one in generations if one.goals is not None]
    return len(set(specs)) / len(specs) if specs else None

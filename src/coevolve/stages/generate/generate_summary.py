"""The summary of stage `generate`: the specs that the generator writes, and its update."""

from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING

from coevolve.core.stage_summary import SPEC_ENTROPY, SPEC_SAMPLE, SPEC_VALID, StageSummary
from coevolve.core.statistics import evenness
from coevolve.stages.generate.rewards import effective

if TYPE_CHECKING:
    from coevolve.stages.generate.iteration import Generated

Figures = dict[str, int | float | None]
FAR = "divergence of specs"


def summary(t: int, generated: "Generated", arithmetic: str) -> StageSummary:
    """The summary of iteration ``t``: the new generations, and the update before them."""
    specs = [(tuple(generation.goals), generation.ask) for generation in generated.new if generation.goals is not None]
    used = Counter(goal for goals, _ in specs for goal in goals)
    figures: Figures = {
        "generations": len(generated.new),
        SPEC_VALID: len(specs) / len(generated.new) if generated.new else None,
        SPEC_ENTROPY: evenness(used, generated.tools),
        "distinct specs": len(set(specs)) / len(specs) if specs else None,
        "goals of a spec": fmean([len(goals) for goals, _ in specs] or [0]),
        "generations learned from": len(generated.weights),
        SPEC_SAMPLE: effective(generated.weights),
        FAR: generated.figures[-1]["spec_kl"] if generated.figures else None,
        "generator steps": len(generated.figures),
    }
    notes = [f"the generator did not learn: {generated.reason}"] if generated.reason and t else []
    return StageSummary("generate", t, figures, [], ["generations"], notes, arithmetic)

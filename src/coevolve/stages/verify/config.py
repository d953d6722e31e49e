"""Section `verify`: the rules by which candidates become tasks."""

from typing import Annotated, Literal

from pydantic import model_validator

from coevolve.core.learnability import SHAPES
from coevolve.core.section import Count, Section, Share, Whole, one_of


class Select(Section):
    """Keep the most instructive of the accepted tasks."""

    shape: Annotated[str, one_of(SHAPES.keys)] = "variance"
    """Learnability of a task solved with probability p: variance, 4p(1-p), or bell."""
    keep: Count = 128
    """Tasks to keep per iteration."""
    variety: Share = 0.25
    """Share of the kept tasks that is chosen for variety of families, first calls, chains and tools."""
    unsolved: bool = False
    """Whether to keep tasks of pass rate 0 although the agent never solved a task with the same tools."""


class Verify(Section):
    enabled: bool = True
    """Whether the environment judges candidates; false accepts all readable and new candidates, as an ablation."""
    words: Literal["none", "language", "values"] = "language"
    """Check of an instruction against its reference: language, by the environment's phrases; values, for environments without a phrasebook too; none."""
    near_duplicate: Share = 0.9
    """Similarity from which two instructions are near-duplicates."""
    solver_attempts: Whole = 0
    """Attempts of the LLM of section endpoint at each accepted task; a task that it never solves is rejected."""
    pass_rate_samples: Whole = 4
    """Episodes of the current policy per accepted task, to measure its pass rate; 0 leaves the rate unknown."""
    policy: str | None = None
    """Model directory, or the URL of a served model (endpoint.model), whose pass rates count; null takes the new policy."""
    select: Select | None = Select()
    """Rule that selects the accepted tasks to keep; null keeps all."""

    @model_validator(mode="after")
    def _measured(self) -> "Verify":
        if self.select is not None and self.pass_rate_samples == 0:
            raise ValueError("select needs pass rates, but pass_rate_samples is 0")
        return self

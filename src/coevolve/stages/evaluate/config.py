"""Section `evaluate`: how to measure policies on the frozen panels."""

from typing import Annotated

from pydantic import Field, model_validator

from coevolve.core.section import Count, NotNegative, Section


class Evaluate(Section):
    panels: Annotated[list[str], Field(min_length=1)] | None = None
    """Frozen panels to play, such as [validation]; null plays all panels of the environment."""
    tasks: Count = 256
    """Tasks per panel, or all if it has fewer."""
    samples: Count = 1
    """Episodes per task; with several, pass@k and pass^k are reported, and temperature must be above 0."""
    temperature: NotNegative = 0.0
    """Sampling temperature; 0 is greedy."""
    bootstrap: Count = 2000
    """Resamples for a confidence interval."""
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.95
    """Level of the confidence intervals."""

    @model_validator(mode="after")
    def _various(self) -> "Evaluate":
        if self.samples > 1 and self.temperature == 0.0:
            raise ValueError("samples above 1 needs a temperature above 0: greedy episodes of a task are all the same")
        return self

"""Section `synthesize`: turn explored chains into candidate tasks."""

from typing import Annotated

from coevolve.core.section import Section, Share, Whole, one_of


def _synthesizers() -> list[str]:
    from coevolve.stages.synthesize.synthesizers import SYNTHESIZERS

    return list(SYNTHESIZERS)


class Synthesize(Section):
    synthesizer: Annotated[str, one_of(_synthesizers)] = "scripted"
    """Author of the instructions: scripted, by templates; endpoint, the LLM of section endpoint."""
    count: Whole | None = None
    """Most candidates per iteration; null means half of explore.explorations, or as many as the task generator writes."""
    errors: Share = 0.0
    """Share of references spoilt on purpose, to measure what verification is worth."""
    withhold: list[str] = []
    """Tools that no synthesized task may use, to measure what happens to them."""

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
    """Share of references to corrupt on purpose, to measure the value of verification."""
    withhold: list[str] = []
    """Tools that no synthesized task may use, to measure the agent's success at tools without new tasks."""

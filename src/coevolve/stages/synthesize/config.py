"""Section `synthesize`: turn explored chains into candidate tasks."""

from typing import Annotated

from coevolve.core.section import Section, Whole, one_of
from coevolve.stages.synthesize.synthesizers import SYNTHESIZERS


class Synthesize(Section):
    synthesizer: Annotated[str, one_of(SYNTHESIZERS.names, files=True)] = "scripted"
    """Author of the instructions: scripted, by templates; endpoint, the LLM of section endpoint; or a file."""
    count: Whole | None = None
    """Most candidates per iteration; null means half of explore.explorations, or as many as the task generator writes."""

"""Section `explore`: how to explore the real environment, and how much."""

from typing import Annotated

from coevolve.core.section import Count, Section, Whole, one_of
from coevolve.stages.explore.explorers import EXPLORERS
from coevolve.stages.explore.guidance import guidances


class Explore(Section):
    explorer: Annotated[str, one_of(EXPLORERS.names, files=True)] = "scripted"
    """Explorer: scripted, samples calls from schemas; endpoint, the LLM of section endpoint; or a file."""
    guidance: Annotated[str, one_of(guidances, files=True)] = "signals"
    """Guide: signals, the agent's weaknesses; coverage, random: no signals; generator, the task generator; or a file."""
    explorations: Whole = 768
    """Chains of calls to look for per iteration."""
    max_calls: Count = 8
    """Calls in one chain."""
    tries: Count = 12
    """Calls in one chain that may fail or find nothing before the explorer gives the chain up."""

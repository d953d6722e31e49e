"""Section `explore`: how to explore the real environment, and how much."""

from typing import Annotated

from coevolve.core.section import Count, Section, Whole, one_of


def _explorers() -> list[str]:
    from coevolve.stages.explore.explorers import EXPLORERS

    return list(EXPLORERS)


def _guidances() -> list[str]:
    from coevolve.stages.explore.guidance import GUIDANCE

    return list(GUIDANCE)


def _schedules() -> list[str]:
    from coevolve.stages.explore.guidance import SCHEDULES

    return list(SCHEDULES)


class Explore(Section):
    explorer: Annotated[str, one_of(_explorers)] = "scripted"
    """Explorer: scripted, samples calls from schemas; endpoint, the LLM of section endpoint; policy, the agent itself."""
    guidance: Annotated[str, one_of(_guidances)] = "signals"
    """Guide: signals, the agent's weaknesses; shuffled, a placebo; coverage, random: no signals; generator, the task generator."""
    schedule: Annotated[str, one_of(_schedules)] = "loop"
    """When to explore: loop, in each iteration; upfront, all explorations in iteration 0, which makes an open loop."""
    explorations: Whole = 768
    """Chains of calls to look for per iteration."""
    max_calls: Count = 8
    """Calls in one chain."""
    tries: Count = 12
    """Calls in one chain that may fail or find nothing before the explorer gives the chain up."""
